"""What brokers answer about many things: for each of them a value or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")
_K = TypeVar("_K")


def known(answers: Mapping[_K, _T | TanistError]) -> dict[_K, _T]:
    """The answers that are none of them an error."""
    return {key: answer for key, answer in answers.items() if not isinstance(answer, TanistError)}


def raise_first(answers: Mapping[_K, _T | TanistError]) -> None:
    """Raises the first error among `answers`, if there is one."""
    for answer in answers.values():
        if isinstance(answer, TanistError):
            raise answer


def attempt(look: Callable[[], _T]) -> _T | TanistError:
    """What `look` returns, or the error it raises."""
    try:
        return look()
    except TanistError as error:
        return error


def answered(look: Callable[[], _T]) -> _T | None:
    """What `look` returns; None: it could not be told."""
    found = attempt(look)
    return None if isinstance(found, TanistError) else found


def answered_only(look: Callable[[], Mapping[str, bool | TanistError]]) -> dict[str, bool]:
    """What could be told; nothing where nobody answers."""
    answers = attempt(look)
    return {} if isinstance(answers, TanistError) else known(answers)
