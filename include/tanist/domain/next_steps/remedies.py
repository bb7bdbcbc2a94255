"""What mends a mirror against which something speaks, by the names of limitations and checks."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, named
from tanist.domain.errors import Diverged, ForeignWrite, SourceTopicRecreated
from tanist.domain.failover.commands import accept_undecided_command
from tanist.domain.failover.limitations import REPORT_MS
from tanist.domain.failover.reasons import DETACHED
from tanist.domain.filled import REASON, exact_options
from tanist.domain.limitation_kinds.table import KINDS
from tanist.domain.losses import UncopiedRecordsDeleted
from tanist.domain.next_steps import commands
from tanist.domain.next_steps.commands import typed
from tanist.domain.next_steps.step import NextStep
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist.domain.next_steps.situation import MirrorSituation

    Remedy = Callable[[MirrorSituation], Iterator[NextStep]]

_MISSED: Final = 2
"""So many reports of a worker in a row are not late by chance."""
_PENDING: Final = "and nothing but a fetcher sets or lifts the source fences that are pending"
_MOST_FAILED: Final = 10
"""Topics whose steps are listed: a list of thousands is read by nobody."""
_ANOTHER_COPY: Final = frozenset({ForeignWrite.name, Diverged.name, SourceTopicRecreated.name})
"""After these errors a topic is copied again from its start: no resume helps."""


def are_needed(at: MirrorSituation) -> bool:
    """Whether something is not as it should be that somebody can mend, or has to know."""
    limited = any(at.limited(mode) for mode in Mode)
    return limited or bool(at.failing)


def steps(at: MirrorSituation) -> Iterator[NextStep]:
    """What can be typed; for the rest `missing` says what to do."""
    limited = {each.name for mode in Mode for each in at.limited(mode)}
    explained = {check for name in limited if name in KINDS for check in KINDS[name].checks}
    for name, remedy in _OF_LIMITATIONS.items():
        if name in limited:
            yield from remedy(at)
    for name, remedy in _OF_CHECKS.items():
        if name in at.failing - explained:
            yield from remedy(at)


def before_a_survey(at: MirrorSituation) -> Iterator[NextStep]:
    """Where a source fence is not in force no survey is final: a fetcher sets those that are pending."""
    if "workers" in at.failing:
        yield from _worker(at)
    elif "fences" in at.failing:
        yield from _mend_fences(at)


def take_topics_in(at: MirrorSituation) -> Iterator[NextStep]:
    """The topics that match the mirror's filters, and those that were detached."""
    yield from _attach(at)
    if at.place.spec is None or not at.place.spec.include:
        return
    yield NextStep(
        command=typed(at, "metadata", "sync"), why="no topic is in the mirror: it takes in what its filters match"
    )


def move_groups(at: MirrorSituation) -> Iterator[NextStep]:
    """Of a mirror that somebody else copies: its groups are all that is moved."""
    if "workers" in at.failing:
        yield from _worker(at)
    if "positions" in at.failing:
        yield NextStep(
            command=typed(at, "groups", "sync"),
            why="commits translated positions of groups without members; `mirror_group_offsets` does it on schedule",
        )
    yield from _answer_rewinds(at)


def _answer_rewinds(at: MirrorSituation) -> Iterator[NextStep]:
    """Groups that were set back at the source, of a mirror that asks whether they follow."""
    if not at.rewound:
        return
    groups = named(at.rewound, ", ")
    yield NextStep(
        command=typed(at, "groups", "sync", *exact_options("--group", at.rewound), "--backwards"),
        why=f"{groups}: set back at the source; they read records again here after a failover",
        decision="set them back here, too",
    )
    yield NextStep(
        command=typed(at, "mirrors", "alter", "--on-rewind", "hold"),
        why=f"{groups}: stays where it is until it has come there again; it is for the whole mirror, from now on",
        decision="leave every group where it is",
    )


def _sync(at: MirrorSituation) -> Iterator[NextStep]:
    yield NextStep(command=typed(at, "metadata", "sync"), why="topics, partitions or ACLs of the source have changed")


def _worker(at: MirrorSituation, why: str = "no fetcher is running") -> Iterator[NextStep]:
    command = shlex.join(("tanist", "fetcher", "run", "--destination", at.destination))
    yield NextStep(command=command, why=f"{why}; it stays in the foreground")


def _wait(at: MirrorSituation) -> Iterator[NextStep]:
    yield NextStep(
        command=typed(at, "mirrors", "wait", "--for", "state=MIRRORING"), why="partitions are not being copied yet"
    )


def _resume_paused(at: MirrorSituation) -> Iterator[NextStep]:
    if paused := at.paused():
        yield NextStep(command=commands.resume(at, paused), why=f"{len(paused)} topic(s) are paused")


def _mend_failed(at: MirrorSituation) -> Iterator[NextStep]:
    failed = at.failed()
    for topic, (error, reason) in islice(failed.items(), _MOST_FAILED):
        why = f"{topic}: {error}: {reason}"
        if error in _ANOTHER_COPY:
            yield NextStep(
                command=typed(at, "mirrors", "remove", *exact_options("--topic", [topic]), "--keep-copy"),
                why=f"{why}; no producer is stopped, and the copy stays as it is, closed",
                decision=f"stop mirroring {topic}, so that it can be deleted here and copied again",
            )
            yield NextStep(
                command=commands.plan(at, Mode.PLANNED, *exact_options("--exclude", [topic])),
                why=f"{topic} stays behind",
                decision=f"fail over all but {topic}",
            )
        elif error == UncopiedRecordsDeleted.name:
            yield NextStep(
                command=typed(at, "mirrors", "alter", "--on-loss", "continue"),
                why=f"{why}; it is for the whole mirror, and from now on: `--on-loss fail` ends it",
                decision="accept that these records are lost, and that the mirror goes on behind such losses",
            )
        else:
            yield NextStep(
                command=commands.resume(at, [topic]), why=why, decision=f"its cause is mended: go on with {topic}"
            )
    if (more := len(failed) - _MOST_FAILED) > 0:
        yield NextStep(
            command=typed(at, "mirrors", "describe", "--state", MirrorState.FAILED.value),
            why=f"{more} more topic(s) FAILED; what is next names {_MOST_FAILED} of them at a time",
            decision="see all of them",
        )


def _attach(at: MirrorSituation) -> Iterator[NextStep]:
    broken = {each.topic for each in at.detached if {part.error for part in each.observed} & _ANOTHER_COPY}
    sound = {each.topic for each in at.detached} - broken
    if sound:
        yield NextStep(
            command=typed(at, "mirrors", "add", *exact_options("--topic", sound)),
            why=f"{', '.join(sorted(sound))}: taken out of the mirror without a failover; a failover leaves it out",
            decision="mirror it again; to give it up, delete its copy and remove it (docs/mirroring.md)",
        )
    if broken:
        named = ", ".join(sorted(broken))
        yield NextStep(
            command=typed(at, "mirrors", "add", *exact_options("--topic", broken)),
            why=f"{named}: its copy is no copy of its source, so it is refused while the copy is there",
            decision=f"the copy is deleted at {at.destination} (kafka-topics.sh --delete): copy {named} from its start",
        )


def _go_without(at: MirrorSituation) -> Iterator[NextStep]:
    if at.source_is_down and at.source_answers and not at.deleted_at_source():
        yield NextStep(
            command=commands.plan(at, Mode.UNPLANNED),
            why=f"a part of {at.source_name} does not answer; if it comes back, waiting loses nothing",
            decision="fail over without what does not answer",
        )


def _open_only_copy(at: MirrorSituation) -> Iterator[NextStep]:
    if deleted := at.deleted_at_source():
        yield NextStep(
            command=commands.plan(at, Mode.UNPLANNED, *exact_options("--topic", deleted)),
            why=f"{', '.join(deleted)}: deleted at the source, so the mirror topic is the only copy",
            decision="open the copy for writers",
        )
        yield NextStep(
            command=typed(at, "mirrors", "remove", *exact_options("--topic", deleted), "--keep-copy"),
            why="the copy stays as it is, closed",
            decision="stop mirroring it",
        )


def _accept_undecided(at: MirrorSituation) -> Iterator[NextStep]:
    yield NextStep(
        command=accept_undecided_command(at.status.mirror, at.destination),
        why="nobody had decided about records of an old source when the mirror was reversed",
        decision="accept that nobody decides about them any more",
    )


def _accept_findings(at: MirrorSituation) -> Iterator[NextStep]:
    open_ = sorted({str(each.finding) for each in at.findings if not each.accepted_by})
    if open_:
        found = (word for each in open_ for word in ("--finding", each))
        yield NextStep(
            command=typed(at, "failback", "accept", *found, "--reason", REASON),
            why="; ".join(str(each) for each in at.findings if not each.accepted_by),
            decision="accept what a survey has found",
        )


def _look_again(at: MirrorSituation) -> Iterator[NextStep]:
    """Where workers run: what they do again and again is due, and shown once it is done."""
    if "workers" not in at.failing:
        again = shlex.join(("tanist", "status", at.status.mirror, "--destination", at.destination))
        yield NextStep(command=again, why="a duty of the workers has not been done, or failed: look again in a moment")


def _lift(at: MirrorSituation) -> Iterator[NextStep]:
    yield NextStep(
        command=typed(at, "fence", "lift"), why="source fences block producers although no failover needs them"
    )


def _mend_fences(at: MirrorSituation) -> Iterator[NextStep]:
    """Pending source fences are left to a fetcher: `fence set` does not touch them.

    Whether one runs is not known in the seconds between two of its reports: one that has just died has reported as
    recently. It is soon known that a report is missing, long before its worker counts as dead (SILENT_MS).
    """
    if not at.pending_fences:
        yield NextStep(
            command=typed(at, "fence", "set", "--topic", ".*"),
            why="producers could write to both clusters: a source fence is not in force",
        )
    elif at.reported_ms is None or at.reported_ms > _MISSED * REPORT_MS:
        silent = f"no fetcher has reported itself for more than {_MISSED * REPORT_MS // 1000} s"
        yield from _worker(at, f"{silent}, {_PENDING}")
    else:
        yield NextStep(
            command=typed(at, "fence", "show"),
            why=f"a fetcher has reported itself a moment ago, {_PENDING}: look again in a moment",
        )


_OF_LIMITATIONS: Final[Mapping[str, Remedy]] = {
    "NO_WORKER": _worker,
    "GROUP_POSITIONS_OLD": _worker,
    "PARTITION_FAILED": _mend_failed,
    "PARTITION_NO_COPY": _mend_failed,
    "TOPIC_RECREATED": _mend_failed,
    "SOURCE_TRUNCATED": _mend_failed,
    "SOURCE_TOPIC_DELETED": _open_only_copy,
    "WITHOUT_DRAIN": _resume_paused,
    "PARTITION_PREPARING": _wait,
    "PARTITION_UNKNOWN": _wait,
    "MIRROR_LOGIN_UNKNOWN": _wait,
    "PARTITIONS_WITHOUT_COPY": _sync,
    "TOPICS_WITHOUT_COPY": _sync,
    "SOURCE_ACLS_CHANGED": _sync,
    "COPY_CONFIGS_ALTERED": _sync,
    "SOURCE_FENCED": _lift,
    "SOURCE_DOWN": _go_without,
    DETACHED: _attach,
    "TAIL_UNDECIDED": _accept_undecided,
}
"""In the order in which they are done: without a worker nothing else is mended."""

_OF_CHECKS: Final[Mapping[str, Remedy]] = {
    "workers": _worker,
    "fences": _mend_fences,
    "tail_findings": _accept_findings,
    "rewinds": _answer_rewinds,
    "duties": _look_again,
}
