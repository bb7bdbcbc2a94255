"""The plan of a reversal: a mirror that has failed over runs in the other direction, and copies only what is new.

The old source becomes the destination. Its log stays as it is up to `H`, where the new primary's own records begin;
from there on everything is copied, at identical offsets. That needs every offset from H on to be free: `E <= H`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.acl_entries import to_deny
from tanist.domain.approval.words import PlanHash, canonical, hash_of
from tanist.domain.checks import named
from tanist.domain.errors import CouldNotTell, Refused, TanistError
from tanist.domain.failback.survey import new_words
from tanist.domain.limitation import Limitation
from tanist.domain.problems import about
from tanist.domain.tails import TailVerdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.failback.survey import PartitionSurvey

VERSION: Final = 1
TAIL_STAYS_READABLE: Final = "TAIL_STAYS_READABLE"
TAIL_UNDECIDED: Final = "TAIL_UNDECIDED"
MIRROR_TOPIC_WRITABLE: Final = "MIRROR_TOPIC_WRITABLE"
TOPICS_STAY_BEHIND: Final = "TOPICS_STAY_BEHIND"
TOPICS_WITHOUT_COPY: Final = "TOPICS_WITHOUT_COPY"
"""As in the plan of a planned failover: who has accepted it there has accepted it for the reversal after it."""
SOURCE_LOST_RECORDS: Final = "SOURCE_LOST_RECORDS"
TOPICS_COPIED_AGAIN: Final = "TOPICS_COPIED_AGAIN"
RECORDS_NOT_SURVEYED: Final = "RECORDS_NOT_SURVEYED"
QUARANTINE_INCOMPLETE: Final = "QUARANTINE_INCOMPLETE"
TAIL_EXPIRED: Final = str(TailVerdict.EXPIRED)
PREFIX_NOT_COMPARED: Final = "PREFIX_NOT_COMPARED"
TO_ACCEPT: Final = (TAIL_UNDECIDED,)
"""Limitations that an operator must name to get a plan at all."""


class OffsetsOverlap(Refused):
    name = "OFFSETS_OVERLAP"
    operator_action = (
        "these offsets name a record on each cluster (`tanist failback survey`): `tanist mirrors reverse NAME "
        "--recreate REGEX` deletes the topic at the old source and copies it again, --exclude leaves it behind; "
        "nothing was changed"
    )


class LogDiverged(Refused):
    name = "LOG_DIVERGED"
    operator_action = (
        "the old source lost copied records and took others: `tanist mirrors reverse NAME --recreate REGEX` deletes "
        "the topic there and copies it again, --exclude leaves it behind; nothing was changed"
    )


class SurveyNotFinal(CouldNotTell):
    name = "SURVEY_NOT_FINAL"
    operator_action = (
        "see `tanist failback survey`; a running fetcher of the mirror's destination sets a pending source fence, "
        "`tanist failback abort-transactions` ends transactions that stay open; nothing was changed"
    )


class TailUndecided(Refused):
    name = TAIL_UNDECIDED
    operator_action = (
        "`tanist failback rescue` copies these records to the new primary, `tanist failback decide` says what becomes "
        f"of them; or accept that nobody has decided with --accept {TAIL_UNDECIDED}; nothing was changed"
    )


class TopicCannotReturn(Refused):
    name = "TOPIC_CANNOT_RETURN"
    operator_action = (
        "leave the topic behind with --exclude, or restore it; if only the old source's topic is another one, "
        "`tanist mirrors reverse NAME --recreate REGEX` deletes it there and copies it again; nothing was changed"
    )


class TailWouldBeDeleted(Refused):
    name = "TAIL_WOULD_BE_DELETED"
    operator_action = (
        "these records exist nowhere else: `tanist failback rescue` copies them to the new primary, `tanist failback "
        "decide` and `tanist failback replay` say what becomes of them; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """What is deleted at the old source. `topic_id`: of its topic, empty: there is none. `replicas`: 0: the default.

    `discarded`: offsets there that no survey has compared with anything. `offsets`, `bytes`: what is copied again, as
    it was when it was planned; not part of the plan, as the new primary goes on writing. None: not known.
    """

    topic_id: str
    replicas: int
    discarded: int = 0
    offsets: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturningTopic:
    """A topic that is copied to the old source again.

    `promotion_epoch`: how often it was promoted. `free_from`: by partition, the offset beyond which the old source's
    log must not reach when copying begins at its end. `denied`: principals that are denied WRITE at the old source.
    `ends`: by partition, where its log ended when it was planned; not part of the plan, because markers of retrying
    producers may still follow. `recreation`: the old source's topic is deleted and created again first.
    """

    topic: str
    promotion_epoch: int
    free_from: tuple[int, ...]
    denied: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    recreation: Recreation | None = None

    @property
    def markers(self) -> int:
        """Reserved offsets that the old source has not used: gap markers fill them."""
        return sum(max(0, start - end) for start, end in zip(self.free_from, self.ends, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """What an approver sees. `source` and `destination`: cluster ids in the new direction."""

    mirror: str
    mirror_id: str
    source_cluster_id: str
    destination_cluster_id: str
    topics: tuple[ReturningTopic, ...]
    limitations: tuple[Limitation, ...] = ()

    @property
    def canonical_plan(self) -> str:
        """Canonical JSON: what an approval binds, and from which an interrupted reversal is completed."""
        about = {each.name: sorted(each.about) for each in self.limitations if each.about}
        again = {
            each.topic: [each.recreation.topic_id, each.recreation.replicas, each.recreation.discarded]
            for each in self.topics
            if each.recreation is not None
        }
        words = {
            "v": VERSION,
            "reverse": self.mirror,
            "mirror_id": self.mirror_id,
            "clusters": [self.source_cluster_id, self.destination_cluster_id],
            "topics": [
                [each.topic, each.promotion_epoch, list(each.free_from), list(each.denied)] for each in self.topics
            ],
            "limitations": sorted({each.name for each in self.limitations}),
            "about": about,
        }
        return canonical(words | {"recreate": again} if again else words)

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)

    def accepted(self, limitation: str) -> frozenset[str]:
        """The topics that a limitation of this name is about."""
        return frozenset(name for each in self.limitations if each.name == limitation for name in each.about)

    @classmethod
    def read(cls, plan_json: str) -> Reversal:
        """Raises ValueError, KeyError or TypeError if this is not the plan of a reversal."""
        found: dict[str, Any] = json.loads(plan_json)
        source, destination = found["clusters"]
        again = {
            topic: Recreation(topic_id=topic_id, replicas=replicas, discarded=discarded)
            for topic, (topic_id, replicas, discarded) in found.get("recreate", {}).items()
        }
        return cls(
            mirror=found["reverse"],
            mirror_id=found["mirror_id"],
            source_cluster_id=source,
            destination_cluster_id=destination,
            topics=tuple(
                ReturningTopic(
                    topic=topic,
                    promotion_epoch=epoch,
                    free_from=tuple(starts),
                    denied=tuple(denied),
                    recreation=again.get(topic),
                )
                for topic, epoch, starts, denied in found["topics"]
            ),
            limitations=tuple(
                Limitation(name, "", about=tuple(found["about"].get(name, ()))) for name in found["limitations"]
            ),
        )


def problems(found: Iterable[PartitionSurvey], accepted: Collection[str]) -> Iterator[TanistError]:
    """Why partitions cannot be copied to. `accepted`: limitations that the operator has named."""
    for each in found:
        match each.verdict:
            case TailVerdict.OVERLAP:
                why = (
                    f"{each.partition} ends at {each.end} at the old source, and the new primary's records begin at "
                    f"{each.reserve_end}"
                )
                yield about(each.partition.topic, OffsetsOverlap(why))
            case TailVerdict.DIVERGED:
                why = f"{each.partition}: the logs agree up to {each.common_end}, not up to {each.old_end}"
                yield about(each.partition.topic, LogDiverged(why))
            case _ if not each.reasons and each.undecided and TAIL_UNDECIDED not in accepted:
                yield TailUndecided(f"{each.partition} has {new_words([each])} of a tail that nobody has decided about")
            case _:
                pass
        if not each.final:
            yield _not_final(each)


def problems_of_recreation(found: Iterable[PartitionSurvey]) -> Iterator[TanistError]:
    """Why the logs of topics cannot be deleted: they may still grow, or have records that exist nowhere else."""
    for each in found:
        if not each.final:
            yield _not_final(each)
        elif not each.decided and (each.tail is None or each.tail.records):
            count = "an unknown number of records" if each.tail is None else new_words([each])
            yield TailWouldBeDeleted(f"{each.partition} has {count} at the old source that nobody else has")
        elif each.undecided:
            yield TailWouldBeDeleted(f"{each.partition} has rescued records that are not decided: {new_words([each])}")


def _not_final(of: PartitionSurvey) -> SurveyNotFinal:
    return SurveyNotFinal(f"{of.partition}: {'; '.join(of.reasons) or 'its tail is unknown'}")


def cannot_continue(found: Iterable[PartitionSurvey]) -> bool:
    """Whether a log of these partitions cannot be copied to as it is."""
    return any(each.verdict in {TailVerdict.OVERLAP, TailVerdict.DIVERGED} for each in found)


def recreated(
    topic: str, epoch: int, partitions: int, recreation: Recreation, denied: tuple[str, ...]
) -> ReturningTopic:
    """How a topic is copied that is created again: from its first offset. `partitions`: at the new primary."""
    return ReturningTopic(
        topic=topic, promotion_epoch=epoch, free_from=(0,) * partitions, denied=denied, recreation=recreation
    )


def unlike_the_plan(topic: ReturningTopic, partitions: int, replicas: int) -> str:
    """How a topic differs from what was approved, in words; empty: not at all.

    Brokers create a topic for clients with their own number of partitions and replicas.
    """
    wanted = topic.recreation.replicas if topic.recreation is not None else 0
    found = []
    if partitions != len(topic.free_from):
        found.append(f"{partitions} partition(s), not {len(topic.free_from)}")
    if wanted and replicas != wanted:
        found.append(f"replication factor {replicas}, not {wanted}")
    return " and ".join(found)


def cost(topics: Iterable[ReturningTopic], altered: Mapping[str, str]) -> Iterator[Limitation]:
    """What an approver accepts of topics that are deleted and copied again.

    `altered`: those whose decided tails are not in quarantine as they were rescued, with the reason.
    """
    again = [(each.topic, each.recreation) for each in topics if each.recreation is not None]
    if again:
        what = named(f"{topic} ({_amount(each)})" for topic, each in again)
        about = tuple(sorted(topic for topic, _ in again))
        detail = f"deleted at the old source and copied again from their first offset: {what}"
        yield Limitation(TOPICS_COPIED_AGAIN, detail, about=about)
    if unknown := [(topic, each) for topic, each in again if each.discarded]:
        what = named(f"{topic} ({each.discarded} offsets)" for topic, each in unknown)
        about = tuple(sorted(topic for topic, _ in unknown))
        detail = f"deleted at the old source without having been compared or rescued: {what}"
        yield Limitation(RECORDS_NOT_SURVEYED, detail, about=about)
    if altered:
        detail = (
            "deleted at the old source although quarantine no longer has all records that were rescued from there: "
            f"{named(f'{topic}: {why}' for topic, why in sorted(altered.items()))}"
        )
        yield Limitation(QUARANTINE_INCOMPLETE, detail, about=tuple(sorted(altered)))


def _amount(of: Recreation) -> str:
    offsets = "an unknown number of offsets" if of.offsets is None else f"{of.offsets} offsets"
    return f"{offsets}, {'unknown size' if of.bytes is None else f'{of.bytes} bytes'}"


def returning(
    topic: str, epoch: int, found: Sequence[PartitionSurvey], rules: Collection[AclEntry], mirrors: Collection[str]
) -> ReturningTopic:
    """How `topic` is copied to again. `found`: its partitions, without problems; `rules`: its ACLs for writing."""
    ordered = sorted(found, key=lambda each: each.partition)
    return ReturningTopic(
        topic=topic,
        promotion_epoch=epoch,
        free_from=tuple(_free_from(each) for each in ordered),
        ends=tuple(each.end or 0 for each in ordered),
        denied=to_deny(rules, mirrors),
    )


def _free_from(of: PartitionSurvey) -> int:
    """The end of the reserve; of a log that has lost copied records its end, from where they are copied back."""
    return of.common_end or 0 if of.verdict is TailVerdict.SHORTER else of.reserve_end


def limitations(
    found: Sequence[PartitionSurvey],
    behind: Mapping[str, str],
    writable: Mapping[str, str],
    without_copy: Sequence[str] = (),
) -> Iterator[Limitation]:
    """What an approver accepts. `behind`, `writable`: topics with the reason. `without_copy`: see `without_copies`."""
    tails = [each for each in found if each.verdict is TailVerdict.TAIL]
    records = sum(each.tail.records for each in tails if each.tail)
    where = named(str(each.partition) for each in tails)
    about = tuple(sorted(str(each.partition) for each in tails))
    if tails:
        yield Limitation(
            TAIL_STAYS_READABLE,
            f"{records} record(s) that only the old source has stay in its log, where consumers read them: {where}",
            about=about,
        )
    if undecided := [each for each in found if each.undecided]:
        where = named(str(each.partition) for each in undecided)
        about = tuple(sorted(str(each.partition) for each in undecided))
        yield Limitation(TAIL_UNDECIDED, f"nobody has decided about {new_words(undecided)}: {where}", about=about)
    if short := [each for each in found if each.verdict is TailVerdict.SHORTER]:
        lost = sum(each.old_end - (each.common_end or 0) for each in short)
        yield Limitation(
            SOURCE_LOST_RECORDS,
            f"the old source has lost {lost} copied offset(s), which are copied back: "
            f"{named(str(each.partition) for each in short)}",
            about=tuple(sorted(str(each.partition) for each in short)),
        )
    if gone := [each for each in found if each.expired]:
        count = sum(each.expired for each in gone)
        yield Limitation(
            TAIL_EXPIRED,
            f"the old source had deleted {count} offset(s) that only it had, before they were rescued: "
            f"{named(str(each.partition) for each in gone)}",
            about=tuple(sorted(str(each.partition) for each in gone)),
        )
    if unknown := [each for each in found if each.uncompared]:
        yield Limitation(
            PREFIX_NOT_COMPARED,
            "retention has left no copied record that both logs have, so it is not known whether the old source has "
            f"the same: {named(str(each.partition) for each in unknown)}",
            about=tuple(sorted(str(each.partition) for each in unknown)),
        )
    if behind:
        reasons = named(f"{topic}: {why}" for topic, why in sorted(behind.items()))
        yield Limitation(TOPICS_STAY_BEHIND, f"not copied back: {reasons}", about=tuple(sorted(behind)))
    if without_copy:
        yield Limitation(TOPICS_WITHOUT_COPY, without_copies(without_copy), about=tuple(sorted(without_copy)))
    if writable:
        yield writable_limitation(writable)


def without_copies(topics: Sequence[str]) -> str:
    """What topics are that match the mirror's filters, and that only the old source has."""
    return (
        "topics of the old source match the mirror's filters and were never copied; they are not fenced, and clients "
        f"can use them there: {named(topics, ', ')}; `tanist mirrors add` and a failover of them before the reversal "
        "copy them to the new primary"
    )


def writable_limitation(writable: Mapping[str, str]) -> Limitation:
    """`writable`: topics with the reason."""
    return Limitation(
        MIRROR_TOPIC_WRITABLE,
        f"other clients can write to the old source's topics, which stops the mirror: {named(by_reason(writable))}; "
        "stop them first: a client that was not stopped gets acknowledgements there once the source fence is lifted, "
        "and what it writes withdraws the reversal or stops its topic",
        about=tuple(sorted(writable)),
    )


def by_reason(writable: Mapping[str, str]) -> tuple[str, ...]:
    """For people: each reason once, with its topics."""
    topics: dict[str, list[str]] = {}
    for topic, why in sorted(writable.items()):
        topics.setdefault(why, []).append(topic)
    return tuple(f"{named(names, ', ')}: {why}" for why, names in topics.items())
