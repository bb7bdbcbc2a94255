"""What stands for a value in the texts of refusals, replaced by the value where it is known."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REASON: Final = "as advised by tanist"
"""Stored with what is approved or undone so; whoever types it may give a better one."""
_MIRROR: Final = re.compile(r"(tanist [a-z-]+(?: [a-z-]+)?) NAME\b")
OF_A_MIRROR: Final = (
    *("next", "reconcile", "status", "validate"),
    *("failback abort-transactions", "failback decide", "failback replay", "failback rescue", "failback survey"),
    *("failover abort", "failover plan", "failover status"),
    *("fence lift", "fence set", "fence show"),
    *("groups list", "groups sync", "groups translate"),
    *("metadata diff", "metadata sync"),
    *("mirrors add", "mirrors alter", "mirrors delete", "mirrors describe", "mirrors pause", "mirrors remove"),
    *("mirrors resume", "mirrors reverse"),
    "offsets lookup",
)
"""The commands that take a mirror, and need nothing else to be understood: texts quote them without it. A test compares
them with those of the command line."""
_NEED_MORE: Final = r"failover run(?= --plan )|mirrors wait(?= --for )"
_BARE: Final = re.compile(rf"`(tanist (?:(?:{'|'.join(OF_A_MIRROR)})(?=`| --)|{_NEED_MORE}))")
_TOPICS: Final = re.compile(r"(--[a-z]+) (?:REGEX|TOPIC)\b")


def exactly(topic: str) -> str:
    """The expression that matches the name of `topic` and no other."""
    return topic.replace(".", r"\.")


def exact_options(option: str, topics: Iterable[str]) -> Iterator[str]:
    """The option of a command for each topic, by name, with the expression that matches just that one."""
    for topic in sorted(topics):
        yield from (option, exactly(topic))


def filled(text: str, *, mirror: str, destination: str, topics: Iterable[str], plan: str) -> str:
    """`text` with commands that can be typed; what is empty is not known, and stays as it is.

    NAME is the mirror, with its destination, which commands of a mirror get also without that word; REGEX and TOPIC of
    an option are the topics, HASH is the plan, TEXT the reason of `--reason`, PLACE the destination of a command that
    has no mirror.
    """
    found = text.replace("--reason TEXT", shlex.join(("--reason", REASON)))
    if destination:
        found = found.replace("--destination PLACE", shlex.join(("--destination", destination)))
    if mirror:
        place = shlex.join((mirror, *(("--destination", destination) if destination else ())))
        found = _MIRROR.sub(lambda to: f"{to[1]} {place}", found)
        found = _BARE.sub(lambda to: f"`{to[1]} {place}", found)
    if names := {*topics} - {""}:
        found = _TOPICS.sub(lambda to: shlex.join(exact_options(to[1], names)), found)
    return found.replace("--plan HASH", f"--plan {plan}") if plan else found
