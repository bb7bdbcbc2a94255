"""Topic selection: regular expressions that match whole names and cannot take exponential time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured, TopicNotInMirror
from tanist.domain.filled import exactly
from tanist.domain.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVERYTHING: Final = (".*",)
_LONGEST: Final = 1_000
_MOST_REPEATS: Final = 4
"""`*`, `+` and `{n,m}` one after another: a name has at most 249 characters, so the worst case stays finite."""
_MOST_CHOICES: Final = 10
_OURS: Final = re.compile(r"__mirror_.*|__consumer_offsets|__transaction_state|__share_group_state")
_PIECES: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^():]*:?|\{\d*,?\d*\}|.", re.DOTALL)
_LITERAL: Final = re.compile(r"(?:[a-zA-Z0-9_-]|\\[._-]|\.)+")


@dataclass(slots=True)
class _Group:
    """The quantifiers counted inside one pair of parentheses so far."""

    repeats: int = 0
    choices: int = 0


def _objection(text: str) -> str | None:
    """Why `text` could take exponential time to match, or None."""
    open_groups, closed = [_Group()], _Group()
    before = ""
    for piece in _PIECES.findall(text):
        if piece.startswith("("):
            open_groups.append(_Group())
        elif piece == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            open_groups[-1].repeats += closed.repeats
            open_groups[-1].choices += closed.choices
        elif piece == "|" and len(open_groups) == 1:
            open_groups = [_Group()]  # another expression altogether
        elif piece == "|" or (piece == "?" and before not in {"*", "+", "?"}):
            open_groups[-1].choices += piece == "?" or open_groups[-1].choices == 0
        elif piece in {"*", "+"} or (piece.startswith("{") and len(piece) > 1):
            if before == ")" and closed.repeats + closed.choices:
                return "a repetition of something that already repeats or has alternatives"
            open_groups[-1].repeats += 1
        if sum(g.repeats for g in open_groups) > _MOST_REPEATS:
            return f"more than {_MOST_REPEATS} repetitions in a row"
        if sum(g.choices for g in open_groups) > _MOST_CHOICES:
            return f"more than {_MOST_CHOICES} optional parts in a row"
        before = piece
    return None


def topic_pattern(text: str) -> re.Pattern[str]:
    """`text` as a regular expression for names of topics.

    Raises:
        Misconfigured: it is not a valid expression, or could take exponential time.
    """
    if not text or len(text) > _LONGEST:
        raise Misconfigured(f"a regular expression for topics has 1 to {_LONGEST} characters, not {len(text)}")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as exc:
        raise Misconfigured(f"{text!r} is not a regular expression: {exc}") from exc
    if found := _objection(text):
        raise Misconfigured(f"{text!r} could take too long to match: {found}; give --topic several times instead")
    if pattern.groupindex or re.search(r"\\[1-9]|\(\?[=!<P]", text):
        raise Misconfigured(f"{text!r} uses lookaround or a back-reference, which is not supported; use --exclude")
    return pattern


def pattern_problems(texts: Iterable[str]) -> tuple[Misconfigured, ...]:
    """The errors of `texts`; empty: none."""
    found = []
    for text in texts:
        try:
            topic_pattern(text)
        except Misconfigured as exc:
            found.append(exc)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Selection:
    """Whole-name matches of any `include` but of no `exclude`. The clusters' and our own topics never match."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """What asks a command for the same topics."""
        named = (("--topic", self.include), ("--exclude", self.exclude))
        return tuple(word for option, texts in named for text in texts for word in (option, text))

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The selected names, sorted."""
        wanted = [topic_pattern(text) for text in self.include]
        unwanted = [topic_pattern(text) for text in self.exclude]
        return tuple(
            sorted(
                name
                for name in set(names)
                if not _OURS.fullmatch(name)
                and any(p.fullmatch(name) for p in wanted)
                and not any(p.fullmatch(name) for p in unwanted)
            )
        )

    def idle(self, names: Sequence[str]) -> tuple[str, ...]:
        """The `include` expressions that match none of `names`: probably typing errors."""
        return tuple(text for text in self.include if not any(topic_pattern(text).fullmatch(n) for n in names))

    def among(self, names: Iterable[str]) -> tuple[str, ...]:
        """As `of`; without an `include` all but the excluded ones."""
        return Selection(self.include or EVERYTHING, self.exclude).of(names)

    def unmatched(self, names: Iterable[str]) -> tuple[str, ...]:
        """The expressions, of `exclude` as well, that match none of `names`: probably typing errors."""
        return Selection((*self.include, *self.exclude)).idle(tuple(names))

    def check(self) -> None:
        """Raises Misconfigured, with all expressions that are none."""
        if wrong := pattern_problems((*self.include, *self.exclude)):
            refuse(wrong)

    def chosen(self, names: Iterable[str], what: str) -> tuple[str, ...]:
        """The selected ones of `names`, sorted, all of them without an `include`. `what`: what `names` are, for people.

        Raises:
            TopicNotInMirror: an expression matches none of them, or `exclude` leaves none. Misconfigured: it is none.
        """
        self.check()
        known = tuple(names)
        if idle := self.unmatched(known):
            refuse(TopicNotInMirror(f"{text!r} matches no {what}") for text in idle)
        found = self.among(known)
        if known and not found:
            raise TopicNotInMirror(f"--exclude {' '.join(self.exclude)} leaves no {what}")
        return found

    def literals(self) -> tuple[str, ...]:
        """Names that `include` contains literally, so that they can be requested even if they are not listed."""
        return tuple(re.sub(r"\\(.)", r"\1", text) for text in self.include if _LITERAL.fullmatch(text))


def only(topics: Iterable[str]) -> Selection:
    """Exactly these topics."""
    return Selection(tuple(exactly(each) for each in sorted(topics)))


EVERY_TOPIC: Final = Selection(())
"""Nobody has named a topic."""
