"""The rows of a reversal. Its point of no return: the mirror's state is at the old source."""

from __future__ import annotations

from typing import Final

from tanist.usecases.failback import old_source, recreating, settling
from tanist.usecases.runs.row import RunRow

TO_THE_MOVE: Final = (
    RunRow("recreate", "topics that cannot return as they are were deleted and created again", recreating.recreate),
    RunRow("deny", "everybody but the mirror is denied by name", old_source.deny_others, old_source.undeny_others),
    RunRow("take_back", "what a failover has given is taken back", old_source.take_back_given, old_source.give_again),
    RunRow("closed", "nobody else may write", old_source.wait_until_closed),
    RunRow("configure", "topics are mirror topics", old_source.configure, old_source.configure_as_before),
    RunRow("behind", "topics that stay behind expire as before", old_source.release_behind),
    RunRow("remember", "brokers remember producer ids longer, where they may be asked to", old_source.remember_ids),
    RunRow("ready", "the state topics exist at the old source", settling.make_ready),
    RunRow("lift", "the source fences are lifted", old_source.lift_fences, old_source.fence_again),
    RunRow("admit", "the mirror may write", old_source.admit_mirror),
    RunRow(
        "settle", "the mirror's state is at the old source, and locked there (the point of no return)", settling.settle
    ),
)
"""Whatever could let somebody write comes late: an acknowledgement at the old source is one that is withdrawn."""
BEHIND_THE_MOVE: Final = (
    RunRow("release", "topics that stay behind expire as before", old_source.release_rest),
    RunRow("forget", "the new primary has no offset maps and positions of this mirror", settling.forget_state),
    RunRow("leave", "the new primary has a forwarding record instead of the mirror", settling.leave),
    RunRow("arrive", "the mirror is unlocked at the old source", settling.arrive),
)
"""Forward is the only way from here on."""
