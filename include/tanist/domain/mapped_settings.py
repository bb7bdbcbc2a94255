"""The settings of a mirror with mapped offsets, whose batches are appended in transactions of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.records import MirrorSpec

DEFAULT_INTERVAL_MS: Final = 500
"""After this time a transaction is committed, unless the mirror has another interval."""
TIMEOUT_MS: Final = 60_000
"""After this time brokers abort a transaction of a worker that has not ended it (`transaction.timeout.ms`)."""
SHORTEST_INTERVAL_MS: Final = 50
LONGEST_INTERVAL_MS: Final = TIMEOUT_MS // 2
"""A transaction that is open for longer than the timeout is aborted, so the interval leaves half of it to end one."""


ADOPT: Final = "--adopt: choose topics that are empty at the destination, or give --into-existing instead"
"""An option that needs identical offsets, and what is done instead."""


ONLY_MAPPED: Final = "{} is for mirrors with mapped offsets: leave it out, or create one with --offsets mapped"
ONLY_IDENTICAL: Final = (
    "{} is for mirrors with identical offsets: with mapped ones no offset has to be filled, so leave it out"
)


ONE_THREAD: Final = (
    "--threads: a mirror with mapped offsets has one thread in each worker, because a transaction spans partitions of "
    "all brokers: run more workers instead"
)


DENIES_FOR_GOOD: Final = (
    "--deny-writers needs failovers that allow these writers again, and --no-grant-writers leaves ACLs alone: give one "
    "of them only"
)


class NotSupported(UnsupportedVersion):
    operator_action = "choose the value that this version supports; nothing was changed"


def interval_ms(spec: MirrorSpec) -> int:
    """After how many milliseconds a transaction of the mirror is committed, or its positions alone."""
    return spec.transaction_ms or DEFAULT_INTERVAL_MS


def interval_problem(milliseconds: int) -> Misconfigured | None:
    """Why it cannot be the interval of a mirror; None: it can."""
    if SHORTEST_INTERVAL_MS <= milliseconds <= LONGEST_INTERVAL_MS:
        return None
    return Misconfigured(
        f"--transaction-ms {milliseconds} is not {SHORTEST_INTERVAL_MS} to {LONGEST_INTERVAL_MS}: brokers abort a "
        f"transaction after {TIMEOUT_MS} ms"
    )


def left_to_people_problems(fence_source: bool | None, grant_writers: bool | None) -> Iterator[Misconfigured]:  # noqa: FBT001
    """Of a mirror with identical offsets, for which these settings are wanted; None: nothing is."""
    for flag, wanted in (("--no-fence-source", fence_source), ("--no-grant-writers", grant_writers)):
        if wanted is False:
            yield Misconfigured(ONLY_MAPPED.format(flag))


def not_with_mapped(mirror: str, option: str) -> NotSupported:
    """The refusal of an option, for which the offsets of both logs have to be the same; `option`: as ADOPT."""
    return NotSupported(f"mirror {mirror!r} has mapped offsets, with which this is not possible yet: {option}")


def must_be_identical(spec: MirrorSpec, option: str) -> None:
    """Raises NotSupported: the mirror has mapped offsets; `option`: as ADOPT."""
    if spec.is_mapped:
        raise not_with_mapped(spec.mirror, option)
