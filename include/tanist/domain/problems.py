"""Several errors at once: everything that is wrong with a command is said the first time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")
_WORD: Final = re.compile(r"([\w.-]+)")
_MANY: Final = 4
"""So many problems of one kind are lines of their own; of more, so many names are given."""
_GRAVEST_FIRST: Final = (70, 2, 3, 4, 1)


class Problems(TanistError):
    """Nothing was changed, for each of `problems`."""

    name, exit_code = "SEVERAL", 1
    operator_action = "nothing was changed"

    def __init__(self, problems: Sequence[TanistError]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def each(error: TanistError) -> tuple[TanistError, ...]:
    """The errors that `error` stands for."""
    return error.problems if isinstance(error, Problems) else (error,)


def exit_code(error: TanistError) -> int:
    """A wrong command line before an unknown fact before a refusal."""
    codes = {problem.exit_code for problem in each(error)}
    return next(code for code in _GRAVEST_FIRST if code in codes)


def refuse(problems: Iterable[TanistError]) -> NoReturn:
    """Raise `problems`: the only one as itself."""
    flat = [one for problem in problems for one in each(problem)]
    raise flat[0] if len(flat) == 1 else Problems(flat)


def lines(error: TanistError) -> tuple[str, ...]:
    """What a person reads: one line for each problem, and one for all problems that differ in a single name only."""
    kinds: list[_Kind] = []
    for problem in each(error):
        if not any(kind.takes(problem) for kind in kinds):
            kinds.append(_Kind(problem))
    return tuple(line for kind in kinds for line in kind.lines())


class _Kind:
    """Problems whose texts are the same but for one word, the name of the item, however often it stands there."""

    def __init__(self, first: TanistError) -> None:
        self._problems = [first]
        self._names: list[str] = []
        self._words = _WORD.split(first.reason)
        self._where: list[int] = []
        """Where the name stands, once a second problem has told."""

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
        return (f"{first.name}: {first.reason}; the same for {len(more)} more: {some}, ... ({first.operator_action})",)


class ProblemCollector:
    """Collects what is wrong over several looks, so that one refusal can name it all."""

    def __init__(self, problems: Iterable[TanistError] = ()) -> None:
        self.problems = list(problems)

    def attempt(self, look: Callable[[], _T]) -> _T | None:
        """What `look` returns; None where it raises: the error is kept."""
        try:
            return look()
        except TanistError as error:
            self.problems.append(error)
            return None

    def raise_all(self) -> None:
        """Raises everything that was found wrong, if anything was."""
        if self.problems:
            refuse(self.problems)
