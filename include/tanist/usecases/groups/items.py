"""A position as JSON and in words. The field names are a contract (docs/reference/commands.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.connect import sink_note
from tanist.domain.translation import Proof

if TYPE_CHECKING:
    from tanist.usecases.groups.gather import Gathered
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult


def summary(synced: GroupSyncResult, *, dry_run: bool = False) -> str:
    """What was committed, or would be committed in a dry run, in words."""
    done = sum(row.will_commit if dry_run else row.committed for row in synced.rows)
    verb = "would commit" if dry_run else "committed"
    kept = sum(row.unmoved for row in synced.rows)
    there = f"; {kept} had not moved" if kept else ""
    return f"{verb} {done} of {len(synced.rows)} offset(s) of {len({row.group for row in synced.rows})} group(s){there}"


def group_note(group: str, seen: Gathered, rewound: frozenset[str]) -> str:
    """What people should know of a group, by what the source says of it; empty: nothing.

    `rewound`: groups that were set back there, and of which a person decides.
    """
    facts = seen.source_answer.groups.get(group)
    notes = [sink_note(group, facts.client_ids if facts else ())]
    if group in rewound:
        notes.append(
            f"set back at the source, and not here: `tanist groups sync {seen.spec.mirror} --destination "
            f"{seen.spec.destination} --backwards` with --group follows"
        )
    return "; ".join(filter(None, notes))


def position_item(row: PositionRow) -> dict[str, Any]:
    """One row of `tanist groups translate|sync`, and of the evidence of a failover."""
    return {
        "group": row.group,
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "source_committed_offset": row.position.offset,
        "destination_offset": row.offset,
        "precision": row.translation.precision,
        "strategy": row.translator.name,
        "reason": row.reason,
        "committed": row.committed,
        "proof": row.compared.proof,
        "proof_reason": "" if row.compared.proof is Proof.MATCH else row.compared.why,
        "clamped": row.clamped,
        "position_age_ms": row.age_ms,
        "destination_committed_offset": row.present.offset if row.present else None,
        "error": row.error.name if row.error else None,
    }
