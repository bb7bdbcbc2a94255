"""The rows of a reversal. Its point of no return: the mirror's state is at the old source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.usecases.failback import old_source, recreating, settling
from tanist.usecases.runs.table import RunRow, RunTable

if TYPE_CHECKING:
    from tanist.usecases.failback.reversing import Reversing

REVERSAL: Final[RunTable[Reversing, Reversing, None]] = RunTable(
    "a reversal",
    (
        RunRow("recreate", "topics that cannot return as they are were created again", recreating.recreate),
        RunRow(
            "take_back",
            "ACLs that an earlier failover has created at the old source are deleted",
            old_source.take_back_given,
            old_source.give_again,
        ),
        RunRow(
            "deny",
            "every other principal that may write to the topics is denied WRITE by name",
            old_source.deny_others,
            old_source.undeny_others,
        ),
        RunRow("closed", "nobody else may write, as far as ACLs say", old_source.wait_until_closed),
        RunRow(
            "configure",
            "the topics have the configurations of mirror topics",
            old_source.configure,
            old_source.configure_as_before,
        ),
        RunRow("behind", "topics that stay behind have the retention of before", old_source.release_behind),
        RunRow("remember", "brokers of the old source remember producer ids longer", old_source.remember_ids),
        RunRow("ready", "the topics of the mirror's state are at the old source", settling.make_ready),
        RunRow("lift", "the source fences are lifted", old_source.lift_fences, old_source.fence_again),
        RunRow("admit", "the mirror may write to the topics", old_source.admit_mirror),
        RunRow("settle", "the mirror's state is at the old source (the point of no return)", settling.settle),
        RunRow("release", "no topic that stays behind has the retention of a survey", old_source.release_rest),
        RunRow(
            "forget", "the old destination has no offset maps and positions of groups any more", settling.forget_state
        ),
        RunRow("leave", "the old destination has a forwarding record", settling.leave),
        RunRow("arrive", "the mirror is unlocked at its new destination", settling.arrive),
    ),
    no_return="settle",
)
"""Steps that let a producer write come last: a record that is acknowledged at the old source withdraws the reversal.

ACLs of an earlier failover are taken back before others are denied, and given again after these are allowed again: both
may be the same DENY.
"""
