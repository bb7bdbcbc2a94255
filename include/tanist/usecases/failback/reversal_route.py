"""The rows of a reversal. Its point of no return: the mirror's state is at the old source."""

from __future__ import annotations

from typing import Final

from tanist.usecases.failback import old_source, recreating, settling
from tanist.usecases.runs.row import RunRow

TO_THE_MOVE: Final = (
    RunRow("recreate", recreating.recreate),
    RunRow("take_back", old_source.take_back_given, old_source.give_again),
    RunRow("deny", old_source.deny_others, old_source.undeny_others),
    RunRow("closed", old_source.wait_until_closed),
    RunRow("configure", old_source.configure, old_source.configure_as_before),
    RunRow("behind", old_source.release_behind),
    RunRow("remember", old_source.remember_ids),
    RunRow("ready", settling.make_ready),
    RunRow("lift", old_source.lift_fences, old_source.fence_again),
    RunRow("admit", old_source.admit_mirror),
    RunRow("settle", settling.settle),
)
"""Steps that let a producer write come last: a record that is acknowledged at the old source withdraws the reversal.

ACLs of an earlier failover are taken back before others are denied, and given again after these are allowed again: both
may be the same DENY.
"""
BEHIND_THE_MOVE: Final = (
    RunRow("release", old_source.release_rest),
    RunRow("forget", settling.forget_state),
    RunRow("leave", settling.leave),
    RunRow("arrive", settling.arrive),
)
"""Forward is the only way from here on."""
