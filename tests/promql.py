"""As much of PromQL as docs/alerts.yaml and docs/reference/metrics.md use, over scraped samples.

Counters may begin again; a range is what was scraped in it, without extrapolation to its edges.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Labels: TypeAlias = "frozenset[tuple[str, str]]"
Vector: TypeAlias = "dict[Labels, float]"
Range: TypeAlias = "dict[Labels, list[tuple[float, float]]]"


@dataclass(frozen=True)
class Scrape:
    """What was exposed at a time, in seconds since 1970."""

    at: float
    samples: dict[str, Vector]

    @classmethod
    def of(cls, at: float, text: str) -> Scrape:
        found: dict[str, Vector] = {}
        for family in text_string_to_metric_families(text):
            for each in family.samples:
                found.setdefault(each.name, {})[frozenset(each.labels.items())] = each.value
        return cls(at, found)


_TOKEN: Final = re.compile(r'\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|("[^"]*")|(=~|!=|<=|>=|==|\[\w+\]|[-+*(){},<>=]))')
_COMPARED: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
_COUNTED: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_GROUPED: Final[dict[str, Callable[[Iterable[float]], float]]] = {"sum": sum, "max": max, "min": min}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def evaluate(expression: str, scrapes: Sequence[Scrape]) -> Vector | float:
    """At the time of the last of `scrapes`. A comparison leaves the series of which it is true."""
    reading = _Reading(expression, scrapes)
    found = reading.comparison()
    assert reading.word == "", f"{expression}: {reading.word!r} is not understood"
    assert not isinstance(found, _Selected), f"{expression}: a range is no result"
    return found


def names(expression: str) -> set[str]:
    """The metrics in an expression."""
    return set(re.findall(r"\btanist_\w+", expression))


@dataclass(frozen=True)
class _Selected:
    """A range."""

    series: Range


class _Reading:
    def __init__(self, expression: str, scrapes: Sequence[Scrape]) -> None:
        self._tokens = self._split(expression)
        self._scrapes = scrapes
        self.word = next(self._tokens)

    @staticmethod
    def _split(expression: str) -> Iterator[str]:
        at = 0
        while at < len(expression.rstrip()):
            found = _TOKEN.match(expression, at)
            assert found, f"{expression[at:]!r} is not understood"
            at = found.end()
            yield found[0].strip()
        while True:
            yield ""

    def _take(self, expected: str = "") -> str:
        token, self.word = self.word, next(self._tokens)
        assert not expected or token == expected, f"{expected!r} is expected, not {token!r}"
        return token

    def comparison(self) -> Vector | float | _Selected:
        left = self._sum()
        if self.word not in _COMPARED:
            return left
        compare, right = _COMPARED[self._take()], self._sum()
        assert isinstance(left, dict)
        assert isinstance(right, float)
        return {labels: value for labels, value in left.items() if compare(value, right)}

    def _sum(self) -> Vector | float | _Selected:
        left = self._product()
        while self.word in {"+", "-"}:
            left = _both(_COUNTED[self._take()], left, self._product())
        return left

    def _product(self) -> Vector | float | _Selected:
        left = self._term()
        while self.word == "*":
            left = _both(_COUNTED[self._take()], left, self._term())
        return left

    def _term(self) -> Vector | float | _Selected:
        if self.word == "(":
            self._take()
            inner = self.comparison()
            self._take(")")
            return inner
        if self.word[:1].isdigit():
            return float(self._take())
        name = self._take()
        if name in _GROUPED:
            return self._grouped(_GROUPED[name])
        if self.word == "(" and hasattr(self, f"_{name}"):
            self._take()
            found: Vector | float = getattr(self, f"_{name}")()
            self._take(")")
            return found
        return self._selector(name)

    def _grouped(self, together: Callable[[Iterable[float]], float]) -> Vector:
        self._take("by")
        self._take("(")
        by = {self._take()}
        while self.word == ",":
            self._take()
            by.add(self._take())
        self._take(")")
        self._take("(")
        inner = self.comparison()
        self._take(")")
        assert isinstance(inner, dict)
        found: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            found.setdefault(frozenset(each for each in labels if each[0] in by), []).append(value)
        return {labels: together(values) for labels, values in found.items()}

    def _selector(self, name: str) -> Vector | _Selected:
        matchers: list[tuple[str, str, str]] = []
        if self.word == "{":
            self._take()
            while self.word != "}":
                label, how, text = self._take(), self._take(), self._take()
                matchers.append((label, how, text.strip('"')))
                if self.word == ",":
                    self._take()
            self._take("}")
        if not self.word.startswith("["):
            return _matching(self._scrapes[-1].samples.get(name, {}), matchers)
        span = self._take()[1:-1]
        since = self._scrapes[-1].at - int(span[:-1]) * _SECONDS[span[-1]]
        found: Range = {}
        for scrape in self._scrapes:
            if scrape.at >= since:
                for labels, value in _matching(scrape.samples.get(name, {}), matchers).items():
                    found.setdefault(labels, []).append((scrape.at, value))
        return _Selected(found)

    # ── functions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _range(self) -> Range:
        """Of series with two samples at least: one says nothing of a change."""
        found = self.comparison()
        assert isinstance(found, _Selected)
        return {labels: values for labels, values in found.series.items() if len(values) > 1}

    def _increase(self) -> Vector:
        return {labels: _grown(values) for labels, values in self._range().items()}

    def _rate(self) -> Vector:
        return {labels: _grown(found) / (found[-1][0] - found[0][0]) for labels, found in self._range().items()}

    def _delta(self) -> Vector:
        return {labels: values[-1][1] - values[0][1] for labels, values in self._range().items()}

    def _time(self) -> float:
        return self._scrapes[-1].at

    def _absent(self) -> Vector:
        found = self.comparison()
        assert isinstance(found, dict)
        return {} if found else {frozenset(): 1.0}

    def _histogram_quantile(self) -> Vector:
        share = float(self._take())
        self._take(",")
        found = self.comparison()
        assert isinstance(found, dict)
        buckets: dict[Labels, list[tuple[float, float]]] = {}
        for labels, value in found.items():
            bound = float(dict(labels)["le"])
            buckets.setdefault(frozenset(each for each in labels if each[0] != "le"), []).append((bound, value))
        return {labels: _quantile(share, sorted(each)) for labels, each in buckets.items()}


def _grown(values: Sequence[tuple[float, float]]) -> float:
    steps = pairwise(value for _, value in values)
    return sum(later - before if later >= before else later for before, later in steps)


def _quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    total = buckets[-1][1]
    if not total:
        return math.nan
    below, start = 0.0, 0.0
    for bound, count in buckets:
        if count >= share * total:
            return start if math.isinf(bound) else start + (bound - start) * (share * total - below) / (count - below)
        below, start = count, bound
    return start


def _matching(vector: Vector, matchers: Iterable[tuple[str, str, str]]) -> Vector:
    return {labels: value for labels, value in vector.items() if all(_matches(dict(labels), *m) for m in matchers)}


def _matches(labels: dict[str, str], label: str, how: str, text: str) -> bool:
    value = labels.get(label, "")
    if how == "=~":
        return re.fullmatch(text, value) is not None
    return (value == text) is (how == "=")


def _both(
    count: Callable[[float, float], float], left: Vector | float | _Selected, right: Vector | float | _Selected
) -> Vector | float:
    assert isinstance(right, float)
    assert not isinstance(left, _Selected)
    if isinstance(left, float):
        return count(left, right)
    return {labels: count(value, right) for labels, value in left.items()}
