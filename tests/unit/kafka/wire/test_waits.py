"""Several pieces of work in one thread: each posts while the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.kafka.wire.waits import in_turn, together

if TYPE_CHECKING:
    from tanist.kafka.wire.waits import Waits


def work(name: str, posts: int, seen: list[str]) -> Waits[None]:
    for n in range(posts):
        seen.append(f"{name} posts {n}")
        yield
        seen.append(f"{name} has {n}")


def test_each_posts_before_the_first_waits() -> None:
    seen: list[str] = []
    together([work("a", 2, seen), work("b", 1, seen)])
    assert seen == ["a posts 0", "b posts 0", "a has 0", "a posts 1", "b has 0", "a has 1"]


def test_works_of_one_connection_do_not_mix() -> None:
    """Their answers come in the order of the requests, so nobody may take another's."""
    seen: list[str] = []
    together([in_turn([work("a", 1, seen), work("b", 1, seen)]), work("c", 1, seen)])
    assert seen == ["a posts 0", "c posts 0", "a has 0", "b posts 0", "c has 0", "b has 0"]


def test_an_error_is_not_lost() -> None:
    def broken() -> Waits[None]:
        yield
        raise ValueError("b")

    with pytest.raises(ValueError, match="b"):
        together([work("a", 3, []), broken()])
