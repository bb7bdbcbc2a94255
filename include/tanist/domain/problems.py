"""Several errors at once, so that a command reports everything that is wrong at the first attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_T = TypeVar("_T")
_Error = TypeVar("_Error", bound=TanistError)
_WORD: Final = re.compile(r"([\w.-]+)")
_MANY: Final = 4
"""Up to this many problems of one kind get a line each; of more, this many names are listed."""
PARTIAL: Final = 4
_GRAVEST_FIRST: Final = (70, 2, 3, PARTIAL, 1)


class Problems(TanistError):
    """Several errors; nothing was changed. `least`: the exit code unless one of them has a graver one."""

    name, exit_code = "SEVERAL", 1
    operator_action = "nothing was changed"

    def __init__(self, problems: Sequence[TanistError], least: int = 1) -> None:
        super().__init__()
        self.problems = tuple(problems)
        self.least = least

    @property
    def reason(self) -> str:
        """All of them, with what is known of each by now."""
        return "; ".join(str(problem) for problem in self.problems)


def about(topic: str, error: _Error) -> _Error:
    """`error`, which leaving out `topic` avoids."""
    error.topic = topic
    return error


def to_finish(plan: str, error: _Error) -> _Error:
    """`error`, from which `plan` leads on."""
    error.plan = plan
    return error


def of_mirror(error: _Error, mirror: str, destination: str) -> _Error:
    """`error` of a command about this mirror; empty: not known. What an error knows by itself stays."""
    for one in each(error):
        if not one.mirror:
            one.mirror, one.destination = mirror, destination
    return error


def each(error: TanistError) -> tuple[TanistError, ...]:
    """The errors that `error` contains, or itself."""
    return error.problems if isinstance(error, Problems) else (error,)


def exit_code(error: TanistError) -> int:
    """That of an invalid command line before an unknown fact before a refusal."""
    codes = {problem.exit_code for problem in each(error)}
    if isinstance(error, Problems):
        codes.add(error.least)
    return gravest(codes)


def gravest(codes: Collection[int]) -> int:
    """The first in the order of `exit_code` of those exit codes, none of which is 0; there is at least one."""
    return next(code for code in _GRAVEST_FIRST if code in codes)


def exit_code_of_many(codes: Sequence[int]) -> int:
    """Of a command that does the same to many, from the exit codes of each: 0 if all are done, 4 if some are.

    4 too if one of them can be gone on with; where nothing was done the gravest of them.
    """
    if not any(codes):
        return 0
    return PARTIAL if {0, PARTIAL} & set(codes) else gravest(codes)


def refuse(problems: Iterable[TanistError]) -> NoReturn:
    """Raise `problems`; a single one is raised as itself."""
    flat = [one for problem in problems for one in each(problem)]
    raise flat[0] if len(flat) == 1 else Problems(flat)


def lines(error: TanistError) -> tuple[str, ...]:
    """Lines for people: one for each problem; problems that differ in a single name only share a line."""
    kinds: list[_Kind] = []
    for problem in each(error):
        if not any(kind.takes(problem) for kind in kinds):
            kinds.append(_Kind(problem))
    return tuple(line for kind in kinds for line in kind.lines())


class _Kind:
    """Problems whose texts differ only in the name of the item, however often it occurs."""

    def __init__(self, first: TanistError) -> None:
        self._problems = [first]
        self._names: list[str] = []
        self._words = _WORD.split(first.reason)
        self._where: list[int] = []
        """The position of the name, once a second problem has shown it."""

    def takes(self, problem: TanistError) -> bool:
        words = _WORD.split(problem.reason)
        if type(problem) is not type(self._problems[0]) or len(words) != len(self._words):
            return False
        where = [n for n, word in enumerate(words) if word != self._words[n]]
        names = {(self._words[n], words[n]) for n in where}
        if len(names) != 1 or self._where not in ([], where):
            return False
        self._problems.append(problem)
        self._where = where
        self._names.append(words[where[0]])
        return True

    def lines(self) -> tuple[str, ...]:
        first, *more = self._problems
        if len(more) < _MANY:
            return tuple(str(problem) for problem in self._problems)
        some = ", ".join(self._names[:_MANY])
        action = first.action_for(*(problem.topic for problem in self._problems))
        return (f"{first.name}: {first.reason}; the same for {len(more)} more: {some}, ... ({action})",)


class ProblemCollector:
    """Collects errors of several calls, so that one error can report them all."""

    def __init__(self, problems: Iterable[TanistError] = ()) -> None:
        self.problems = list(problems)

    def attempt(self, look: Callable[[], _T]) -> _T | None:
        """The result of `look`; None if it raises: the error is collected."""
        try:
            return look()
        except TanistError as error:
            self.problems.append(error)
            return None

    def raise_all(self) -> None:
        """Raise the collected errors, if there are any."""
        if self.problems:
            refuse(self.problems)
