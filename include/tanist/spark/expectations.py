"""great-expectations decides, on one small frame: a row for each partition. Not on records: Spark has counted them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.validation.result import DifferenceKind, ValidationVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.validation.result import ValidatedPartition

_CERTAIN: Final = (*DifferenceKind, "unequal", "damaged", "headless", "lost", "reused")
"""Columns that must be 0 everywhere; another number is a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """One expectation. `met` is None where it could not be evaluated; `means`: what it says when it is not met."""

    expectation: str
    about: str
    met: bool | None
    means: ValidationVerdict
    observed: Any


def row(found: ValidatedPartition) -> dict[str, Any]:
    """One partition as the expectations see it."""
    compared = found.compared
    damaged = compared.source.damaged + compared.destination.damaged if compared else 0
    return {
        "partition": str(found.request.partition),
        "verdict": found.verdict.value,
        "doubts": "; ".join(found.uncertainties) or None,
        "unequal": found.unequal,
        "damaged": damaged,
        "headless": found.missing_at_start,
        "lost": found.lost,
        "reused": found.reused,
        **{kind.value: count for kind, count in found.differing.items()},
    }


def evaluate(rows: Sequence[dict[str, Any]], partitions: int) -> tuple[Met, ...]:
    """What is met of all that is expected of `rows`, which must be one for each of `partitions`."""
    import great_expectations as gx  # noqa: PLC0415  # five seconds that only the last stage pays
    import pandas as pd  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415
    from great_expectations.expectations.core.expect_column_values_to_be_between import (  # noqa: PLC0415
        ExpectColumnValuesToBeBetween,
    )
    from great_expectations.expectations.core.expect_column_values_to_be_null import (  # noqa: PLC0415
        ExpectColumnValuesToBeNull,
    )
    from great_expectations.expectations.core.expect_table_row_count_to_equal import (  # noqa: PLC0415
        ExpectTableRowCountToEqual,
    )

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_pandas("validation").add_dataframe_asset("partitions")
    batch = asset.add_batch_definition_whole_dataframe("all")
    suite = gx.ExpectationSuite(name="mirror")
    certain, open_yet = {"means": ValidationVerdict.DIFFERENT.value}, {"means": ValidationVerdict.UNKNOWN.value}
    suite.add_expectation(ExpectTableRowCountToEqual(value=partitions, meta=open_yet))
    suite.add_expectation(ExpectColumnValuesToBeNull(column="doubts", meta=open_yet))
    for column in _CERTAIN:
        suite.add_expectation(ExpectColumnValuesToBeBetween(column=str(column), min_value=0, max_value=0, meta=certain))
    definition = gx.ValidationDefinition(name="mirror", data=batch, suite=context.suites.add(suite))
    results = context.validation_definitions.add(definition).run(batch_parameters={"dataframe": pd.DataFrame(rows)})
    return tuple(sorted(map(_met, results.results), key=lambda met: (met.expectation, met.about)))


def _met(result: Any) -> Met:
    config, raised = result.expectation_config, result.exception_info or {}
    failed = bool(raised.get("raised_exception")) or any(
        isinstance(each, dict) and each.get("raised_exception") for each in raised.values()
    )
    observed = {key: result.result[key] for key in _SHOWN if key in (result.result or {})}
    return Met(
        expectation=config.type,
        about=str(config.kwargs.get("column", "table")),
        met=None if failed else bool(result.success),
        means=ValidationVerdict(config.meta["means"]),
        observed="could not be evaluated" if failed else observed,
    )


_SHOWN: Final = ("observed_value", "element_count", "unexpected_count", "partial_unexpected_list")


def decide(met: Iterable[Met], found: Iterable[ValidatedPartition]) -> ValidationVerdict:
    """A certain difference before a doubt before equality. What could not be evaluated is a doubt; nothing is, too."""
    failed = [each for each in met if not each.met]
    if any(each.met is False and each.means is ValidationVerdict.DIFFERENT for each in failed):
        return ValidationVerdict.DIFFERENT
    verdicts = {each.verdict for each in found}
    return (
        ValidationVerdict.EQUAL if not failed and verdicts == {ValidationVerdict.EQUAL} else ValidationVerdict.UNKNOWN
    )
