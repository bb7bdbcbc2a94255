"""How the topics of a mirror are named at its destination, as rules: a template, a pair of templates or of names.

`east.{topic}` and `{topic}-dr` name every topic anew; `FROM=TO` names those that FROM matches, where both contain
`{topic}` once or neither does. The first rule that matches counts. With rules, a topic that none matches is not in the
mirror; without any, names are the same on both sides. No two topics have one copy: rules that could do that are
refused, so a name at the destination leads back to one name at the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.errors import Misconfigured
from tanist.domain.names import SAME_NAMES, TopicNames, is_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TOPIC: Final = "{topic}"
"""Stands for any name, or for what is left of a name."""
MM2_DEFAULT: Final = "mm2-default"
"""Names as MirrorMaker 2's DefaultReplicationPolicy: the alias of the source, and a dot. `mm2-default:ALIAS`, too."""
IDENTITY: Final = "identity"
"""Names as MirrorMaker 2's IdentityReplicationPolicy: the same on both sides."""
SEPARATOR: Final = "."
"""`replication.policy.separator`, by default."""
_PART: Final = re.compile(r"[a-zA-Z0-9._-]{0,248}")


@dataclass(frozen=True, slots=True)
class Template:
    """`before` and `after` surround any text of at least one character; `after` None: exactly the name `before`."""

    before: str
    after: str | None

    @classmethod
    def read(cls, text: str, rule: str) -> Self:
        """`text` as it is written in `rule`.

        Raises:
            Misconfigured: it contains `{topic}` more than once, or makes no name of a topic.
        """
        parts = text.split(TOPIC)
        if len(parts) > 2:  # noqa: PLR2004 -- before and after
            raise Misconfigured(f"--rename {rule!r}: {text!r} contains {TOPIC} more than once")
        if len(parts) == 1:
            if not is_topic_name(text):
                raise Misconfigured(f"--rename {rule!r}: {text!r} is not the name of a topic")
            return cls(text, None)
        if not all(_PART.fullmatch(part) for part in parts):
            raise Misconfigured(f"--rename {rule!r}: {text!r} is not 1 to 249 letters, digits, '.', '_' and '-'")
        return cls(*parts)

    def inner(self, name: str) -> str | None:
        """What `{topic}` stands for in `name`, empty for a plain name; None: it does not match."""
        if self.after is None:
            return "" if name == self.before else None
        fits = name.startswith(self.before) and name.endswith(self.after)
        rest = len(name) - len(self.before) - len(self.after)
        return name[len(self.before) : len(self.before) + rest] if fits and rest > 0 else None

    def filled(self, inner: str) -> str:
        """The name in which `{topic}` stands for `inner`."""
        return self.before if self.after is None else f"{self.before}{inner}{self.after}"


@dataclass(frozen=True, slots=True)
class RenameRule:
    """One `--rename`, as it was `written`."""

    written: str
    source: Template
    copy: Template

    @classmethod
    def read(cls, text: str) -> Self:
        """A rule that is no preset.

        Raises:
            Misconfigured: what is wrong with it.
        """
        before, equals, after = text.partition("=")
        if not equals:
            if TOPIC not in text:
                raise Misconfigured(
                    f"--rename {text!r} does not contain {TOPIC}: give for example 'east.{TOPIC}', or "
                    f"FROM=TO, or one of {IDENTITY}, {MM2_DEFAULT}"
                )
            return cls(text, Template("", ""), Template.read(text, text))
        source, copy = Template.read(before, text), Template.read(after, text)
        if (source.after is None) is not (copy.after is None):
            raise Misconfigured(f"--rename {text!r}: {TOPIC} has to be in both names, or in neither")
        return cls(text, source, copy)


@dataclass(frozen=True, slots=True)
class Renaming:
    """Rules in order. `cycle`: a name of a source topic that has this part before a dot is not in the mirror.

    That is the alias of the destination: MirrorMaker 2 does not copy back what it has copied from there
    (MirrorSourceConnector.isCycle). Empty: no name is left out so.
    """

    rules: tuple[RenameRule, ...]
    cycle: str = ""

    def copy_of(self, topic: str) -> str | None:
        """The name at the destination of a topic of the source; None: it is not in the mirror."""
        if self.cycle and self.cycle in topic.split(SEPARATOR)[:-1]:
            return None
        for rule in self.rules:
            inner = rule.source.inner(topic)
            if inner is not None:
                found = rule.copy.filled(inner)
                return found if is_topic_name(found) else None
        return None

    def source_of(self, copy: str) -> str | None:
        """The name at the source of what may be a copy at the destination; None: it is no copy."""
        for rule in self.rules:
            inner = rule.copy.inner(copy)
            if inner is not None and self.copy_of(found := rule.source.filled(inner)) == copy:
                return found
        return None


def renaming(rename: tuple[str, ...], source: str, destination: str) -> Renaming:
    """The rules of a mirror. `source`, `destination`: the names of the connections.

    Raises:
        Misconfigured: as `rename_problems` has it, the first one.
    """
    cycle = destination if any(_alias(text, source) is not None for text in rename) else ""
    found = Renaming(tuple(_rule(text, source) for text in rename), cycle)
    if clash := _clashes(found.rules):
        raise clash[0]
    return found


@lru_cache(maxsize=256)
def topic_names(rename: tuple[str, ...], source: str, destination: str) -> TopicNames:
    """As `renaming`, the names that follow from the rules."""
    return TopicNames(renaming(rename, source, destination)) if rename else SAME_NAMES


def rename_problems(rename: Sequence[str], source: str) -> tuple[Misconfigured, ...]:
    """All that is wrong with the rules, without asking any cluster; empty: nothing.

    A rule has one `{topic}`, or two plain names, and makes names of topics; no two topics get one name.
    """
    rules, problems = [], []
    for text in rename:
        try:
            rules.append(_rule(text, source))
        except Misconfigured as wrong:
            problems.append(wrong)
    return (*problems, *_clashes(rules))


def _rule(text: str, source: str) -> RenameRule:
    alias = _alias(text, source)
    if alias == "":
        raise Misconfigured(f"--rename {text!r} names no alias of the source")
    if alias is not None:
        return RenameRule(text, Template("", ""), Template.read(f"{alias}{SEPARATOR}{TOPIC}", text))
    return RenameRule(text, Template("", ""), Template("", "")) if text == IDENTITY else RenameRule.read(text)


def mm2_alias(rename: Iterable[str], source: str) -> str | None:
    """The alias that MirrorMaker 2 has for the source, where a preset says so. `source`: its connection."""
    return next((alias for text in rename if (alias := _alias(text, source))), None)


def _alias(text: str, source: str) -> str | None:
    """The alias of the source in the preset `mm2-default`; None: `text` is another rule."""
    if text == MM2_DEFAULT:
        return source
    return text.removeprefix(f"{MM2_DEFAULT}:") if text.startswith(f"{MM2_DEFAULT}:") else None


# ── two topics with one copy ──────────────────────────────────────────────────────────────────────────────────────


def _clashes(rules: Sequence[RenameRule]) -> tuple[Misconfigured, ...]:
    return tuple(
        Misconfigured(
            f"--rename {first.written!r} and {second.written!r} can give two topics the same name: "
            f"{example[0]!r} and {example[1]!r} would both be {example[2]!r}"
        )
        for n, second in enumerate(rules)
        for first in rules[:n]
        if (example := _clash(first, second)) is not None
    )


def _clash(first: RenameRule, second: RenameRule) -> tuple[str, str, str] | None:
    """Two topics of the source and the name that both would have; None: there are none. `first` comes first.

    One rule alone gives no two topics one name. So it takes a name that both can make, of different topics, and the
    topic of `second` must not be one that `first` matches.
    """
    for copy in _candidates(first.copy, second.copy):
        here, there = first.copy.inner(copy), second.copy.inner(copy)
        if here is None or there is None:
            continue
        one, other = first.source.filled(here), second.source.filled(there)
        if one != other and first.source.inner(other) is None:
            return one, other, copy
    return None


_ANY: Final = "*"
"""Stands for any text. It is in no name, so that no rule matches a part of it."""


def _candidates(one: Template, other: Template) -> Iterator[str]:
    """Names such that both make one of them, if there is a name that both make.

    Those of two templates begin with the longer beginning and end with the longer end, with any text between them, or
    with less than none: then the two overlap.
    """
    if plain := [each for each in (one, other) if each.after is None]:
        yield plain[0].before
        return
    before, after = max(one.before, other.before, key=len), max(one.after or "", other.after or "", key=len)
    yield f"{before}{_ANY}{after}"
    for shared in range(min(len(before), len(after)) + 1):
        if before.endswith(after[:shared]):
            yield f"{before}{after[shared:]}"
