"""Old records stay readable, and unreadable ones stay harmless."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from tanist.domain.acl_deletion import AclsDeleted
from tanist.domain.acl_entries import AclEntry
from tanist.domain.anchors import OffsetAnchorsWritten
from tanist.domain.copier import Copier
from tanist.domain.detached_record import TopicDetached
from tanist.domain.duties import Duty, DutyRun
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.given_acls import AclsGiven, GivenAcl
from tanist.domain.groups_synced import GroupsSynced
from tanist.domain.kept_plan import KeptPlan
from tanist.domain.lineage import TopicLineage
from tanist.domain.losses import LostOffsets, LostRange, TombstonesMissed
from tanist.domain.mapped_runs import OffsetRangesWritten, encoded
from tanist.domain.moves import KeptFences, MirrorMove, MoveStatus, TopicBefore
from tanist.domain.names import (
    DestinationOffset,
    EpochMs,
    MirrorName,
    MirrorPartition,
    ProducerId,
    SourceOffset,
    SourcePartition,
)
from tanist.domain.offset_map import OffsetRange
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciled.published import ReconciledSteps, ReconciliationPublished
from tanist.domain.reconciled.steps import Step, Steps, packed, unpacked
from tanist.domain.records import (
    Claim,
    CopiedUpTo,
    FailoverRun,
    Fences,
    GroupPosition,
    GroupSyncStatus,
    MirrorLock,
    MirrorSpec,
    OffsetMode,
    OffsetRangeWritten,
    OffsetTailMode,
    PartitionObserved,
    PromotionEpoch,
    RunStatus,
    TopicDesired,
    WorkerAlive,
)
from tanist.domain.source_ends import EndsConfirmed, SourceEnd, SourceEnds
from tanist.domain.state_record import KINDS, StateRecord, Tombstone
from tanist.domain.states import DesiredState, MirrorState
from tanist.domain.tails import (
    FindingKind,
    FindingsAccepted,
    PartitionTail,
    ReplayProgress,
    RetentionHeld,
    TailDecision,
    TailStage,
    TailVerdict,
    TopicTails,
)
from tanist.kafka.protocol import stored
from tanist.kafka.protocol.stored import Unreadable, decode, encode

MIRROR = MirrorName("east.to-west_1")
PARTITION = MirrorPartition("orders.v1_a-b", 3)

GOLDEN: tuple[tuple[StateRecord, str, str], ...] = (
    (
        MirrorSpec(
            mirror=MIRROR,
            source="east",
            destination="west",
            source_cluster_id="E",
            destination_cluster_id="W",
            include=("orders.*",),
            data_id=ProducerId(1),
            marker_id=ProducerId(2),
            start_id=ProducerId(3),
            created_at=EpochMs(4),
        ),
        "mirror/east.to-west_1",
        (
            '{"v":1,"mirror":"east.to-west_1","source":"east","destination":"west","source_cluster_id":"E",'
            '"destination_cluster_id":"W","include":["orders.*"],"exclude":[],"offsets":"identical","engine":"batches",'
            '"replication_factor":null,"max_start_fill":100000000,"data_id":1,"filler_id":2,"start_id":3,"created_at":4}'
        ),
    ),
    (
        TopicDesired(
            mirror=MIRROR,
            topic=PARTITION.topic,
            desired=DesiredState.PAUSED,
            source_topic_id="id",
            partitions=4,
            offsets=OffsetMode.MAPPED,
            deferred_configs=(("min.insync.replicas", "2"),),
            deferred_acls=(AclEntry("User:app", "*", allowed=True),),
            changed_at=EpochMs(5),
        ),
        "topic/east.to-west_1/orders.v1_a-b",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","wish":"PAUSED","source_topic_id":"id",'
            '"partitions":4,"offsets":"mapped","held_configs":[["min.insync.replicas","2"]],'
            '"held_rules":[{"principal":"User:app","host":"*","allowed":true}],"generation":0,"changed_at":5}'
        ),
    ),
    (
        TopicDesired(
            mirror=MIRROR,
            topic="returned",
            desired=DesiredState.MIRRORING,
            source_topic_id="id",
            partitions=2,
            changed_at=EpochMs(5),
            copy_starts=(7, 0),
            denied=("User:app",),
            restored=True,
            resumes=2,
        ),
        "topic/east.to-west_1/returned",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"returned","wish":"MIRRORING","source_topic_id":"id",'
            '"partitions":2,"offsets":"identical","held_configs":[],"held_rules":[],"generation":0,"changed_at":5,'
            '"copy_starts":[7,0],"denied":["User:app"],"restored":true,"resumes":2}'
        ),
    ),
    (
        TopicDesired(
            mirror=MIRROR,
            topic="given",
            desired=DesiredState.REMOVED,
            source_topic_id="id",
            partitions=1,
            changed_at=EpochMs(5),
            given=(AclEntry("User:*", "*", allowed=True),),
            given_at_source=(AclEntry("User:bob", "*", allowed=False),),
        ),
        "topic/east.to-west_1/given",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"given","wish":"REMOVED","source_topic_id":"id",'
            '"partitions":1,"changed_at":5,"given":[{"principal":"User:*","host":"*","allowed":true}],'
            '"given_at_source":[{"principal":"User:bob","host":"*","allowed":false}]}'
        ),
    ),
    (
        PromotionEpoch(mirror=MIRROR, topic=PARTITION.topic, count=2),
        "generation/east.to-west_1/orders.v1_a-b",
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","count":2}',
    ),
    (
        CopiedUpTo(mirror=MIRROR, topic=PARTITION.topic, copied=(7, -1), at=EpochMs(3)),
        "copied/east.to-west_1/orders.v1_a-b",
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","copied":[7,-1],"at":3}',
    ),
    (
        TopicLineage(
            mirror=MIRROR,
            topic=PARTITION.topic,
            promotion_epoch=2,
            old_cluster_id="e",
            new_cluster_id="w",
            old_ends=(7, 0),
            reserve_ends=(9, 0),
            at=EpochMs(3),
        ),
        "lineage/east.to-west_1/orders.v1_a-b/2",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"old_cluster_id":"e",'
            '"new_cluster_id":"w","old_ends":[7,0],"reserve_ends":[9,0],"at":3}'
        ),
    ),
    (
        TopicTails(
            mirror=MIRROR,
            topic=PARTITION.topic,
            promotion_epoch=2,
            cluster_id="e",
            tails=(
                PartitionTail(
                    partition=0,
                    verdict=TailVerdict.TAIL,
                    common_end=5,
                    end=9,
                    records=4,
                    copied_from=1,
                    copied_to=5,
                    digest="d",
                ),
            ),
            stage=TailStage.RESCUED,
            quarantine="q",
            producer_id=7,
            at=EpochMs(3),
        ),
        "tail/east.to-west_1/orders.v1_a-b/2",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"cluster_id":"e","tails":'
            '[{"partition":0,"verdict":"TAIL","common_end":5,"end":9,"records":4,"copied_from":1,"copied_to":5,'
            '"digest":"d"}],"stage":"NOT_DECIDED","quarantine":"q","producer_id":7,"decision":"","at":3}'
        ),
    ),
    (
        FindingsAccepted(
            mirror=MIRROR,
            topic=PARTITION.topic,
            promotion_epoch=2,
            findings=(FindingKind.OVERLAP, FindingKind.UNDECIDED),
            amounts=(4,),
            accepted_by="User:a",
            reason="r",
            at=EpochMs(3),
        ),
        "accepted/east.to-west_1/orders.v1_a-b/2",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"findings":["OVERLAP","TAIL_UNDECIDED"],'
            '"amounts":[4],"accepted_by":"User:a","reason":"r","at":3}'
        ),
    ),
    (
        RetentionHeld(
            mirror=MIRROR,
            topic=PARTITION.topic,
            before=(("cleanup.policy", "compact"), ("retention.ms", None)),
            topic_id="id",
            at=EpochMs(3),
        ),
        "held/east.to-west_1/orders.v1_a-b",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","before":[["cleanup.policy","compact"],'
            '["retention.ms",null]],"topic_id":"id","at":3}'
        ),
    ),
    (
        TailDecision(
            mirror=MIRROR,
            plan="abc",
            plan_json="{}",
            approval="0-1",
            approver="alice",
            status=RunStatus.RUNNING,
            started_at=EpochMs(3),
            at=EpochMs(4),
        ),
        "decision/east.to-west_1/abc",
        (
            '{"v":1,"mirror":"east.to-west_1","plan":"abc","plan_json":"{}","approval":"0-1","approver":"alice",'
            '"status":"RUNNING","reason":"","started_at":3,"at":4}'
        ),
    ),
    (
        ReplayProgress(
            mirror=MIRROR,
            partition=PARTITION,
            promotion_epoch=2,
            plan="abc",
            producer_id=7,
            start=20,
            sequence=3,
            count=2,
            begin=8,
            end=12,
            replayed=3,
            at=EpochMs(4),
        ),
        "replay/east.to-west_1/orders.v1_a-b/3/2",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"promotion_epoch":2,'
            '"plan":"abc","producer_id":7,"start":20,"sequence":3,"count":2,"begin":8,"end":12,"replayed":3,"at":4}'
        ),
    ),
    (
        PartitionObserved(
            mirror=MIRROR,
            partition=PARTITION,
            state=MirrorState.FAILED,
            row=900,
            reason="größer",
            error="FOREIGN_WRITE",
            last_mirrored_epoch=7,
            claim_epoch=8,
            at=EpochMs(9),
            resumes=2,
            copied_until=SourceOffset(6),
            record_until=SourceOffset(5),
            record_epoch=7,
        ),
        "partition/east.to-west_1/orders.v1_a-b/3",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"state":"FAILED",'
            '"row":900,"reason":"größer","error":"FOREIGN_WRITE","last_mirrored_epoch":7,"claim_epoch":8,"generation":0,"at":9,'
            '"resumes":2,"copied_until":6,"record_until":5,"record_epoch":7}'
        ),
    ),
    (
        SourceEnds(
            mirror=MIRROR,
            chunk=1,
            ends=(SourceEnd(SourcePartition(*PARTITION), SourceOffset(9), SourceOffset(8)),),
            at=EpochMs(1),
        ),
        "ends/east.to-west_1/1",
        (
            '{"v":1,"mirror":"east.to-west_1","chunk":1,"ends":[{"partition":{"topic":"orders.v1_a-b","partition":3},'
            '"high_watermark":9,"last_stable":8}],"at":1}'
        ),
    ),
    (
        SourceEnds(mirror=MIRROR, chunk=3, ends=(), at=EpochMs(1), written_at=EpochMs(7), caught_up_at=EpochMs(2)),
        "ends/east.to-west_1/3",
        ('{"v":1,"mirror":"east.to-west_1","chunk":3,"ends":[],"at":1,"mirror_id":"","written_at":7,"caught_up_at":2}'),
    ),
    (
        EndsConfirmed(mirror=MIRROR, chunk=3, of=EpochMs(7), at=EpochMs(9), caught_up_at=EpochMs(8)),
        "ends-confirmed/east.to-west_1/3",
        '{"v":1,"mirror":"east.to-west_1","chunk":3,"of":7,"at":9,"caught_up_at":8,"mirror_id":""}',
    ),
    (
        SourceEnds(
            mirror=MIRROR,
            chunk=2,
            ends=(
                SourceEnd(
                    SourcePartition(*PARTITION),
                    SourceOffset(9),
                    SourceOffset(8),
                    at=EpochMs(5),
                    silent_since=EpochMs(6),
                ),
                SourceEnd(SourcePartition("t", 0), SourceOffset(9), SourceOffset(8), at=EpochMs(1)),
            ),
            at=EpochMs(1),
        ),
        "ends/east.to-west_1/2",
        (
            '{"v":1,"mirror":"east.to-west_1","chunk":2,"ends":[{"partition":{"topic":"orders.v1_a-b","partition":3},'
            '"high_watermark":9,"last_stable":8,"at":5,"silent_since":6},'
            '{"partition":{"topic":"t","partition":0},"high_watermark":9,"last_stable":8,"at":1}],"at":1}'
        ),
    ),
    (
        Fences(
            mirror=MIRROR,
            topics=(
                FencedTopic(
                    topic="t",
                    status=FenceStatus.PROVED,
                    wanted_by="p",
                    before=FenceBefore(topic="t", kind=FenceKind.TINY_MESSAGES, max_message_bytes="9"),
                ),
                FencedTopic(topic="u", status=FenceStatus.PENDING, wanted_by="p", reason="gone"),
            ),
            at=EpochMs(1),
        ),
        "fence/east.to-west_1",
        (
            '{"v":1,"mirror":"east.to-west_1","topics":[{"topic":"t","status":"proved","owed_by":"p","before":'
            '{"topic":"t","kind":"max.message.bytes=78","had_deny":false,"max_message_bytes":"9"},"reason":""},'
            '{"topic":"u","status":"owed","owed_by":"p","before":null,"reason":"gone"}],"at":1}'
        ),
    ),
    (
        FailoverRun(
            mirror=MIRROR,
            plan="h",
            plan_json="{}",
            approval="0-1",
            approver="a",
            runner="r",
            status=RunStatus.RUNNING,
            marks=("groups",),
            started_at=EpochMs(1),
            at=EpochMs(2),
        ),
        "failover/east.to-west_1/h",
        (
            '{"v":1,"mirror":"east.to-west_1","plan":"h","shown":"{}","approval":"0-1","approver":"a","runner":"r",'
            '"status":"RUNNING","no_return":false,"marks":["groups"],"reason":"","started_at":1,"at":2}'
        ),
    ),
    (
        MirrorLock(
            mirror=MIRROR,
            epoch=3,
            holder="eve@host pid 7",
            operation="failover h",
            plan="h",
            preemptible=True,
            at=EpochMs(2),
            mirror_id="i",
        ),
        "lock/east.to-west_1",
        (
            '{"v":1,"mirror":"east.to-west_1","epoch":3,"holder":"eve@host pid 7","operation":"failover h","plan":"h",'
            '"preemptible":true,"at":2,"mirror_id":"i"}'
        ),
    ),
    (Claim(state_partition=3, epoch=4, worker="w"), "claim/3", '{"v":1,"slice":3,"epoch":4,"worker":"w"}'),
    (
        WorkerAlive(worker="w", version="1.0", host="h", started_at=EpochMs(1), at=EpochMs(2)),
        "worker/w",
        '{"v":1,"worker":"w","version":"1.0","host":"h","started_at":1,"at":2}',
    ),
    (
        ReconciliationPublished(
            mirror=MIRROR,
            partition=PARTITION,
            run="1f0c",
            read_at=EpochMs(5),
            source_topic_id="S",
            source_start=SourceOffset(10),
            source_until=SourceOffset(20),
            topic_id="D",
            destination_start=DestinationOffset(0),
            destination_until=DestinationOffset(9),
            copied=8,
            moved=1,
            lost=2,
            repeated=1,
            steps=2,
            chunks=1,
        ),
        "reconciled/east.to-west_1/orders.v1_a-b/3",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"run":"1f0c",'
            '"read_at":5,"source_topic_id":"S","source_start":10,"source_until":20,"topic_id":"D",'
            '"destination_start":0,"destination_until":9,"copied":8,"moved":1,"lost":2,"repeated":1,"foreign":0,'
            '"steps":2,"chunks":1,"merged":0}'
        ),
    ),
    (
        ReconciledSteps(mirror=MIRROR, partition=PARTITION, run="1f0c", chunk=0, read_at=EpochMs(5), packed="eJxjYGBg"),
        "steps/east.to-west_1/orders.v1_a-b/3/1f0c/0",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"run":"1f0c",'
            '"chunk":0,"read_at":5,"packed":"eJxjYGBg"}'
        ),
    ),
    (
        OffsetRangesWritten(
            mirror=MIRROR,
            mirror_id="id",
            partition=PARTITION,
            source=SourceOffset(100),
            until=SourceOffset(300),
            size=8_192,
            ranges=encoded(
                (
                    OffsetRange(SourceOffset(100), DestinationOffset(7)),
                    OffsetRange(SourceOffset(300), DestinationOffset(208)),
                )
            ),
        ),
        "ranges/east.to-west_1/orders.v1_a-b/3/100/300",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},'
            '"source":100,"ranges":"ZAfIAckB","mirror_id":"id","until":300,"size":8192}'
        ),
    ),
    (
        OffsetAnchorsWritten(
            mirror=MIRROR,
            mirror_id="id",
            partition=PARTITION,
            source=SourceOffset(100),
            until=SourceOffset(300),
            anchors="ZAfIAckB",
            numbers="ZADIAcgB",
        ),
        "anchors/east.to-west_1/orders.v1_a-b/3/100/300",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},'
            '"source":100,"until":300,"anchors":"ZAfIAckB","numbers":"ZADIAcgB","mirror_id":"id"}'
        ),
    ),
    (
        OffsetRangeWritten(
            mirror=MIRROR, partition=PARTITION, source=SourceOffset(10), destination=DestinationOffset(11), why="x"
        ),
        "run/east.to-west_1/orders.v1_a-b/3/10/11",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"source":10,'
            '"destination":11,"why":"x"}'
        ),
    ),
    (
        TombstonesMissed(
            mirror=MIRROR,
            partition=PARTITION,
            start=SourceOffset(10),
            caught_up_at=EpochMs(1),
            read_at=EpochMs(90_000),
            kept_ms=60_000,
            mirror_id="i",
        ),
        "tombstones/east.to-west_1/orders.v1_a-b/3",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"start":10,'
            '"caught_up_at":1,"read_at":90000,"kept_ms":60000,"mirror_id":"i"}'
        ),
    ),
    (
        GroupPosition(
            mirror=MIRROR,
            group="pay/ments",
            partition=SourcePartition(*PARTITION),
            offset=SourceOffset(5),
            at=EpochMs(6),
            kind="consumer",
            order=7,
        ),
        "group/east.to-west_1/pay%2Fments/orders.v1_a-b/3",
        (
            '{"v":1,"mirror":"east.to-west_1","group":"pay/ments","partition":{"topic":"orders.v1_a-b","partition":3},'
            '"offset":5,"at":6,"kind":"consumer","order":7}'
        ),
    ),
    (
        GroupsSynced(mirror=MIRROR, positions=7, withheld=2, at=EpochMs(4), renewed_at=EpochMs(3)),
        "synced/east.to-west_1",
        '{"v":1,"mirror":"east.to-west_1","positions":7,"withheld":2,"at":4,"renewed_at":3}',
    ),
    (
        DutyRun(
            mirror=MIRROR,
            duty=Duty.METADATA,
            worker="w1",
            at=EpochMs(9),
            done_at=EpochMs(4),
            failures=2,
            summary="1 conflict",
            error="SYNC_INCOMPLETE",
            reason="why",
            mirror_id="i",
        ),
        "duty/east.to-west_1/metadata",
        (
            '{"v":1,"mirror":"east.to-west_1","duty":"metadata","worker":"w1","at":9,"done_at":4,"failures":2,'
            '"summary":"1 conflict","error":"SYNC_INCOMPLETE","reason":"why","mirror_id":"i"}'
        ),
    ),
    (
        GroupSyncStatus(
            mirror=MIRROR,
            worker="w",
            mode=OffsetTailMode.POLLING,
            reason="r",
            groups=2,
            complete_until_ms=EpochMs(3),
            at=EpochMs(4),
        ),
        "groups/east.to-west_1",
        ('{"v":1,"mirror":"east.to-west_1","worker":"w","how":"polling","reason":"r","groups":2,"upto":3,"at":4}'),
    ),
    (
        LostOffsets(
            mirror=MIRROR,
            partition=PARTITION,
            ranges=(LostRange(SourceOffset(60), SourceOffset(85), EpochMs(3)),),
            earlier=7,
            topic_id="id",
            at=EpochMs(4),
        ),
        "lost/east.to-west_1/orders.v1_a-b/3",
        (
            '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},'
            '"ranges":[{"start":60,"until":85,"at":3}],"earlier":7,"topic_id":"id","at":4}'
        ),
    ),
    (
        MirrorMove(
            mirror=MIRROR,
            destination="east",
            cluster_id="E",
            status=MoveStatus.MOVED,
            plan="h",
            plan_json="{}",
            approval="0-1",
            approver="a",
            at=EpochMs(4),
            mirror_id="i",
        ),
        "moved/east.to-west_1",
        (
            '{"v":1,"mirror":"east.to-west_1","destination":"east","cluster_id":"E","status":"MOVED","plan":"h",'
            '"plan_json":"{}","approval":"0-1","approver":"a","at":4,"mirror_id":"i"}'
        ),
    ),
    (
        KeptPlan(mirror=MIRROR, plan="h", plan_json="{}", at=EpochMs(4), mirror_id="i"),
        "plan/east.to-west_1/h",
        '{"v":1,"mirror":"east.to-west_1","plan":"h","plan_json":"{}","at":4,"mirror_id":"i"}',
    ),
    (
        KeptFences(
            mirror=MIRROR,
            cluster_id="E",
            topics=(FencedTopic(topic="orders.v1_a-b", status=FenceStatus.PENDING, wanted_by="p"),),
            at=EpochMs(4),
            mirror_id="i",
        ),
        "kept_fence/east.to-west_1/E",
        (
            '{"v":1,"mirror":"east.to-west_1","cluster_id":"E","topics":[{"topic":"orders.v1_a-b","status":"owed",'
            '"owed_by":"p","before":null,"reason":""}],"at":4,"mirror_id":"i"}'
        ),
    ),
    (
        TopicBefore(
            mirror=MIRROR,
            topic="orders.v1_a-b",
            topic_id="id",
            ends=(7, 0),
            configs=(("retention.ms", "-1"), ("segment.bytes", None)),
            shut=("User:mirror",),
            mirror_id="i",
        ),
        "returning/east.to-west_1/orders.v1_a-b",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","topic_id":"id","ends":[7,0],"configs":'
            '[["retention.ms","-1"],["segment.bytes",null]],"shut":["User:mirror"],"mirror_id":"i"}'
        ),
    ),
    (
        TopicDetached(
            mirror=MIRROR,
            topic="apart",
            cluster_id="W",
            kept=TopicDesired(
                mirror=MIRROR,
                topic="apart",
                desired=DesiredState.MIRRORING,
                source_topic_id="id",
                partitions=1,
                changed_at=EpochMs(5),
                denied=("User:app",),
                mirror_id="i",
            ),
            observed=(
                PartitionObserved(
                    mirror=MIRROR,
                    partition=MirrorPartition("apart", 0),
                    state=MirrorState.MIRRORING,
                    row=102,
                    last_mirrored_epoch=7,
                    at=EpochMs(9),
                    mirror_id="i",
                    copied_until=SourceOffset(6),
                ),
            ),
            at=EpochMs(10),
            mirror_id="i",
        ),
        "detached/east.to-west_1/apart",
        (
            '{"v":1,"mirror":"east.to-west_1","topic":"apart","cluster_id":"W","kept":{"mirror":"east.to-west_1",'
            '"topic":"apart","wish":"MIRRORING","source_topic_id":"id","partitions":1,"offsets":"identical","held'
            '_configs":[],"held_rules":[],"generation":0,"changed_at":5,"mirror_id":"i","copy_starts":[],"denied"'
            ':["User:app"],"given":null,"given_at_source":[],"restored":false,"resumes":0},"observed":[{"mirror":'
            '"east.to-west_1","partition":{"topic":"apart","partition":0},"state":"MIRRORING","row":102,"reason":'
            '"","error":null,"last_mirrored_epoch":7,"claim_epoch":0,"generation":0,"topic_id":"","at":9,"mirror_'
            'id":"i","resumes":0,"copied_until":6,"record_until":null,"record_epoch":null}],"at":10,"mirror_id":"'
            'i"}'
        ),
    ),
    (
        AclsGiven(
            mirror=MIRROR,
            resource_type="GROUP",
            pattern_type="PREFIXED",
            resource_name="a/b",
            acls=(GivenAcl("User:app", "*", "READ", "ALLOW"),),
            mirror_id="i",
        ),
        "acls/east.to-west_1/GROUP/PREFIXED/a%2Fb",
        (
            '{"v":1,"mirror":"east.to-west_1","resource_type":"GROUP","pattern_type":"PREFIXED","resource_name":"a/b","acls"'
            ':[{"principal":"User:app","host":"*","operation":"READ","permission":"ALLOW"}],"mirror_id":"i"}'
        ),
    ),
    (
        AclsDeleted(mirror=MIRROR, plan="p", approval="0-7", approver="approver", at=EpochMs(5), mirror_id="i"),
        "acls_deleted/east.to-west_1/p",
        '{"v":1,"mirror":"east.to-west_1","plan":"p","approval":"0-7","approver":"approver","at":5,"mirror_id":"i"}',
    ),
)
"""Written by version 1. Never change what is here: stored topics are full of it."""


WRITTEN: tuple[str, ...] = (
    (
        '{"v":1,"mirror":"east.to-west_1","source":"east","destination":"west","source_cluster_id":"E","desti'
        'nation_cluster_id":"W","include":["orders.*"],"exclude":[],"offsets":"identical","engine":"batches",'
        '"replication_factor":null,"max_start_fill":100000000,"data_id":1,"filler_id":2,"start_id":3,"created'
        '_at":4,"mirror_id":"","merge_small_batches":"off","holes":"refuse","on_loss":"continue",'
        '"deny_writers":false}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","wish":"PAUSED","source_topic_id":"id","par'
        'titions":4,"offsets":"mapped","held_configs":[["min.insync.replicas","2"]],"held_rules":[{"principal'
        '":"User:app","host":"*","allowed":true}],"generation":0,"changed_at":5,"mirror_id":"","copy_starts":[],"denied":[],'
        '"given":null,"given_at_source":[],'
        '"restored":false,"resumes":0}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"returned","wish":"MIRRORING","source_topic_id":"id","parti'
        'tions":2,"offsets":"identical","held_configs":[],"held_rules":[],"generation":0,"changed_at":5,"mirr'
        'or_id":"","copy_starts":[7,0],"denied":["User:app"],"given":null,"given_at_source":[],'
        '"restored":true,"resumes":2}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"given","wish":"REMOVED","source_topic_id":"id","partitions":1,'
        '"offsets":"identical","held_configs":[],"held_rules":[],"generation":0,"changed_at":5,"mirror_id":"",'
        '"copy_starts":[],"denied":[],"given":[{"principal":"User:*","host":"*","allowed":true}],'
        '"given_at_source":[{"principal":"User:bob","host":"*","allowed":false}],"restored":false,"resumes":0}'
    ),
    '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","count":2,"topic_id":"","mirror_id":""}',
    '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","copied":[7,-1],"topic_id":"","at":3,"mirror_id":"","reserve_to":[],"unreserved_to":[],"covers_ms":[],"epochs":[],"markers_per_second":0}',
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"old_cluster_id":"e","ne'
        'w_cluster_id":"w","old_ends":[7,0],"reserve_ends":[9,0],"topic_id":"","at":3,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"cluster_id":"e","tails'
        '":[{"partition":0,"verdict":"TAIL","common_end":5,"end":9,"records":4,"copied_from":1,"copied_to":5,'
        '"digest":"d","expired":0}],"stage":"NOT_DECIDED","quarantine":"q","producer_id":7,"decision":"","at":3,"mirror_i'
        'd":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","promotion_epoch":2,"findings":["OVERLAP","TAIL_UNDECIDED"],'
        '"amounts":[4],"accepted_by":"User:a","reason":"r","at":3,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","before":[["cleanup.policy","compact"],["re'
        'tention.ms",null]],"topic_id":"id","at":3,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","plan":"abc","plan_json":"{}","approval":"0-1","approver":"alice","'
        'status":"RUNNING","reason":"","started_at":3,"at":4,"mirror_id":"","expired_at":-1}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"promotion_epoch":2,'
        '"plan":"abc","producer_id":7,"start":20,"sequence":3,"count":2,"begin":8,"end":12,"replayed":3,"dropped":0,'
        '"restated":0,"batch":[0,0,0],"former":[],"done":false,"at":4,"mirror_id":"","earlier":0}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"state":"FAILED'
        '","row":900,"reason":"größer","error":"FOREIGN_WRITE","last_mirrored_epoch":7,"claim_epoch":8,"gener'
        'ation":0,"topic_id":"","at":9,"mirror_id":"","resumes":2,"copied_until":6,"record_until":5,"record_epoch":7}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","chunk":1,"ends":[{"partition":{"topic":"orders.v1_a-b","partition"'
        ':3},"high_watermark":9,"last_stable":8,"rate":0.0,"log_start":null,"caught_up_at":null,"copied_until":null,'
        '"record_until":null,"record_epoch":null,"log_end":null,"at":null,"silent_since":null}],"at":1,'
        '"mirror_id":""}'
    ),
    ('{"v":1,"mirror":"east.to-west_1","chunk":3,"ends":[],"at":1,"mirror_id":"","written_at":7,"caught_up_at":2}'),
    '{"v":1,"mirror":"east.to-west_1","chunk":3,"of":7,"at":9,"caught_up_at":8,"mirror_id":""}',
    (
        '{"v":1,"mirror":"east.to-west_1","chunk":2,"ends":[{"partition":{"topic":"orders.v1_a-b","partition"'
        ':3},"high_watermark":9,"last_stable":8,"rate":0.0,"log_start":null,"caught_up_at":null,"copied_until":null,'
        '"record_until":null,"record_epoch":null,"log_end":null,"at":5,"silent_since":6},{"partition":{"topic":"t",'
        '"partition":0},"high_watermark":9,"last_stable":8,"rate":0.0,"log_start":null,"caught_up_at":null,'
        '"copied_until":null,"record_until":null,"record_epoch":null,"log_end":null,"at":1,"silent_since":null}],'
        '"at":1,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topics":[{"topic":"t","status":"proved","owed_by":"p","before":{"t'
        'opic":"t","kind":"max.message.bytes=78","had_deny":false,"max_message_bytes":"9"},"reason":"",'
        '"proved_at":null,"lift_asked_at":null},{"topic":"u","status":"owed","owed_by":"p","before":null,"reason":"gone",'
        '"proved_at":null,"lift_asked_at":null}],"at":1,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","plan":"h","shown":"{}","approval":"0-1","approver":"a","runner":"r'
        '","status":"RUNNING","no_return":false,"marks":["groups"],"reason":"","started_at":1,"at":2,"mirror_'
        'id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","epoch":3,"holder":"eve@host pid 7","operation":"failover h","plan"'
        ':"h","preemptible":true,"at":2,"mirror_id":"i"}'
    ),
    '{"v":1,"slice":3,"epoch":4,"worker":"w"}',
    '{"v":1,"worker":"w","version":"1.0","host":"h","started_at":1,"at":2,"principal":null,"unbound":"","reads_merged":false}',
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"run":"1f0c",'
        '"read_at":5,"source_topic_id":"S","source_start":10,"source_until":20,"topic_id":"D",'
        '"destination_start":0,"destination_until":9,"copied":8,"moved":1,"lost":2,"repeated":1,"foreign":0,'
        '"steps":2,"chunks":1,"merged":0,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"run":"1f0c",'
        '"chunk":0,"read_at":5,"packed":"eJxjYGBg","mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"source":100,'
        '"ranges":"ZAfIAckB","mirror_id":"id","until":300,"size":8192}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"source":100,'
        '"until":300,"anchors":"ZAfIAckB","numbers":"ZADIAcgB","mirror_id":"id"}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"source":10,"de'
        'stination":11,"why":"x","mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"start":10,'
        '"caught_up_at":1,"read_at":90000,"kept_ms":60000,"mirror_id":"i"}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","group":"pay/ments","partition":{"topic":"orders.v1_a-b","partition'
        '":3},"offset":5,"at":6,"kind":"consumer","order":7,"mirror_id":""}'
    ),
    '{"v":1,"mirror":"east.to-west_1","positions":7,"withheld":2,"at":4,"renewed_at":3,"mirror_id":""}',
    (
        '{"v":1,"mirror":"east.to-west_1","duty":"metadata","worker":"w1","at":9,"done_at":4,"failures":2,'
        '"summary":"1 conflict","error":"SYNC_INCOMPLETE","reason":"why","mirror_id":"i"}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","worker":"w","how":"polling","reason":"r","groups":2,"upto":3,"at":'
        '4,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","partition":{"topic":"orders.v1_a-b","partition":3},"ranges":[{"sta'
        'rt":60,"until":85,"at":3}],"earlier":7,"topic_id":"id","at":4,"mirror_id":""}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","destination":"east","cluster_id":"E","status":"MOVED","plan":"h",'
        '"plan_json":"{}","approval":"0-1","approver":"a","at":4,"mirror_id":"i","producer_ids":[],"reason":"",'
        '"used":[]}'
    ),
    '{"v":1,"mirror":"east.to-west_1","plan":"h","plan_json":"{}","at":4,"mirror_id":"i"}',
    (
        '{"v":1,"mirror":"east.to-west_1","cluster_id":"E","topics":[{"topic":"orders.v1_a-b","status":"owed","owed_by":'
        '"p","before":null,"reason":"","proved_at":null,"lift_asked_at":null}],"at":4,"mirror_id":"i"}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"orders.v1_a-b","topic_id":"id","ends":[7,0],"configs":'
        '[["retention.ms","-1"],["segment.bytes",null]],"shut":["User:mirror"],"given":[],"mirror_id":"i"}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","topic":"apart","cluster_id":"W","kept":{"mirror":"east.to-west_1",'
        '"topic":"apart","wish":"MIRRORING","source_topic_id":"id","partitions":1,"offsets":"identical","held'
        '_configs":[],"held_rules":[],"generation":0,"changed_at":5,"mirror_id":"i","copy_starts":[],"denied"'
        ':["User:app"],"given":null,"given_at_source":[],"restored":false,"resumes":0},"observed":[{"mirror":'
        '"east.to-west_1","partition":{"topic":"apart","partition":0},"state":"MIRRORING","row":102,"reason":'
        '"","error":null,"last_mirrored_epoch":7,"claim_epoch":0,"generation":0,"topic_id":"","at":9,"mirror_'
        'id":"i","resumes":0,"copied_until":6,"record_until":null,"record_epoch":null}],"at":10,"mirror_id":"'
        'i","data_id":-1}'
    ),
    (
        '{"v":1,"mirror":"east.to-west_1","resource_type":"GROUP","pattern_type":"PREFIXED","resource_name":"a/b","acls"'
        ':[{"principal":"User:app","host":"*","operation":"READ","permission":"ALLOW"}],"mirror_id":"i"}'
    ),
    '{"v":1,"mirror":"east.to-west_1","plan":"p","approval":"0-7","approver":"approver","at":5,"mirror_id":"i"}',
)
"""The same records as they are written today. A field more is added here; a name that is here never changes."""


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN, ids=[key for _, key, _ in GOLDEN])
def test_what_version_1_stored_is_read_for_ever(record: StateRecord, key: str, value: str) -> None:
    assert decode(key.encode(), value.encode()) == record


@pytest.mark.parametrize("record", [record for record, _, _ in GOLDEN], ids=[key for _, key, _ in GOLDEN])
def test_what_is_stored_is_read_back(record: StateRecord) -> None:
    key, value = encode(record)
    assert decode(key, value) == record


def test_every_stored_name_stays_whatever_code_calls_it() -> None:
    """A field that is renamed in code without `stored_under` would be unreadable in every topic there is."""
    written = [encode(record) for record, _, _ in GOLDEN]
    assert [key.decode() for key, _ in written] == [key for _, key, _ in GOLDEN]
    assert [(value or b"").decode() for _, value in written] == list(WRITTEN)


def test_every_kind_has_a_golden_record() -> None:
    assert {type(record) for record, _, _ in GOLDEN} == set(KINDS.values())


FOLLOWED: Final = MirrorSpec(
    mirror=MIRROR,
    source="east",
    destination="west",
    source_cluster_id="E",
    destination_cluster_id="W",
    include=("orders.*",),
    data_id=ProducerId(-1),
    marker_id=ProducerId(-1),
    start_id=ProducerId(-1),
    created_at=EpochMs(4),
    mirror_id="i",
    copied_by=Copier.MM2,
    rename=("mm2-default",),
    strategies=("mm2", "timestamp=clicks.*"),
    group_include=("app-.*",),
    group_exclude=("app-old",),
    sync_groups_seconds=60,
    mm2_aliases=("primary", "backup"),
    poll_timeout_ms=500,
)
"""Somebody else copies its records."""
FOLLOWED_TODAY: Final = (
    b'{"v":2,"mirror":"east.to-west_1","source":"east","destination":"west","source_cluster_id":"E",'
    b'"destination_cluster_id":"W","include":["orders.*"],"exclude":[],"offsets":"identical","engine":"batches",'
    b'"replication_factor":null,"max_start_fill":100000000,"data_id":-1,"filler_id":-1,"start_id":-1,"created_at":4,'
    b'"mirror_id":"i","merge_small_batches":"off","holes":"refuse","on_loss":"continue","deny_writers":false,'
    b'"copied_by":"mm2","rename":["mm2-default"],"strategies":["mm2","timestamp=clicks.*"],'
    b'"group_include":["app-.*"],"group_exclude":["app-old"],"sync_groups_seconds":60,'
    b'"mm2_aliases":["primary","backup"],"poll_timeout_ms":500}'
)


def test_a_mirror_that_somebody_else_copies_is_of_the_second_version() -> None:
    assert encode(FOLLOWED) == (b"mirror/east.to-west_1", FOLLOWED_TODAY)
    assert decode(*encode(FOLLOWED)) == FOLLOWED


def test_the_version_before_does_not_read_a_mirror_that_somebody_else_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers would copy into topics of another replicator. Its kinds had no field of a later version."""
    monkeypatch.setattr(stored, "_newest", lambda _kind: 1)
    found = decode(b"mirror/east.to-west_1", FOLLOWED_TODAY)
    assert isinstance(found, Unreadable)
    assert "newer version: 2" in found.why


def test_a_mirror_of_our_own_stays_of_the_first_version() -> None:
    """Also with settings that the version before ignores: its workers go on copying."""
    own = replace(FOLLOWED, copied_by=Copier.TANIST, rename=(), group_include=())
    _, value = encode(own)
    found = json.loads(value or b"")
    assert found["v"] == 1
    assert not {"copied_by", "rename", "group_include"} & found.keys()
    assert found["group_exclude"] == ["app-old"]


def test_no_value_is_a_tombstone() -> None:
    assert encode(Tombstone("claim/3")) == (b"claim/3", None)
    assert decode(b"claim/3", None) == Tombstone("claim/3")


def test_fields_of_the_future_are_ignored_and_those_of_the_past_defaulted() -> None:
    value = (
        '{"v":1,"mirror":"m","partition":{"topic":"t","partition":0,"hue":1},"state":"PAUSED","row":1,"at":2,"new":[]}'
    )
    found = decode(b"partition/m/t/0", value.encode())
    assert isinstance(found, PartitionObserved)
    assert (found.claim_epoch, found.last_mirrored_epoch, found.error) == (0, -1, None)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"claim/3", b'{"v":2,"slice":3,"epoch":1,"worker":"w"}', "newer version"),
        (b"claim/3", b'{"slice":3,"epoch":1,"worker":"w"}', "no version"),
        (b"claim/3", b'{"v":true,"slice":3,"epoch":1,"worker":"w"}', "no version"),
        (b"claim/3", b'{"v":1,"slice":3,"worker":"w"}', "no epoch"),
        (b"claim/3", b'{"v":1,"slice":3,"epoch":"1","worker":"w"}', "not of type int"),
        (b"claim/3", b'{"v":1,"slice":4,"epoch":1,"worker":"w"}', "belongs to the key 'claim/4'"),
        (b"claim/3", b"{", "property name"),
        (b"claim/3", b"[" * 100_000, "recursion"),
        (b"claim/3", b"\xff\xfe", ""),
        (b"claim/3", b"[]", "not a JSON object"),
        (b"claim/3", b"", "Expecting value"),
        (b"future/3", b'{"v":1}', "does not know records of that kind"),
        (b"\xff", b'{"v":1}', "does not know records of that kind"),
        (b"", b"{}", "does not know records of that kind"),
        (
            b"partition/m/t/0",
            b'{"v":1,"mirror":"m","partition":{"topic":"t","partition":0},"state":"ODD","row":1,"at":2}',
            "ODD",
        ),
        (b"ends/m/0", b'{"v":1,"mirror":"m","chunk":0,"ends":{},"at":2}', "not a list"),
        (
            b"topic/m/t",
            (
                b'{"v":1,"mirror":"m","topic":"t","wish":"PAUSED","source_topic_id":"i","partitions":1,'
                b'"held_configs":[["a"]],"changed_at":1}'
            ),
            "shorter",
        ),
    ],
)
def test_one_bad_record_never_takes_the_control_plane_down(key: bytes, value: bytes, why: str) -> None:
    found = decode(key, value)
    assert isinstance(found, Unreadable)
    assert why in found.why


PACKED = "eJxjYIAALij97T8Y2DMzoAJuCHUAJs4DpQ3Q1LEjcxgZGABc3QhP"
"""What version 1 packs of the steps of the test below; what it inflates to stays what it is."""


def test_a_packed_table_is_read_for_ever() -> None:
    """A change of the numbers of standings, or of the columns, would read every published table as another one."""
    steps = Steps.of(
        [
            Step(0, None, 3, slopes=True, exact=True, placement=Standing.EXACT, again=0),
            Step(10, None, 13, slopes=False, exact=False, placement=Standing.REORDERED, again=7),
            Step(2**62, None, 14, slopes=False, exact=False, placement=Standing.MERGED, again=2**40),
        ]
    )
    assert unpacked((PACKED,)) == steps == unpacked(packed(steps))


@pytest.mark.parametrize("chunk", ["", "a", "eJxjYGBg", PACKED[:-8], PACKED[8:]])
def test_a_table_that_cannot_be_unpacked_is_told_as_such(chunk: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpacked((chunk,))


def test_chunks_in_the_wrong_order_are_no_table() -> None:
    flat = [Step(n, None, n, slopes=False, exact=True, placement=Standing.EXACT, again=0) for n in range(2500)]
    chunks = packed(Steps.of(flat))
    assert len(chunks) == 3
    assert len(unpacked(chunks)) == 2500
    for wrong in ((), chunks[::-1]):
        with pytest.raises(ValueError, match="order"):
            unpacked(wrong)
