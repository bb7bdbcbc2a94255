"""Several errors at once: everything that is wrong with a command is said the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")
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


class Findings:
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

    def settle(self) -> None:
        """Raises everything that was found wrong, if anything was."""
        if self.problems:
            refuse(self.problems)
