"""Who copies the records of a mirror. What somebody else copies is followed: nothing is written to its topics."""

from __future__ import annotations

from enum import StrEnum

from tanist.domain.errors import Misconfigured


class Copier(StrEnum):
    """`tanist`: workers of this mirror. `mm2`: MirrorMaker 2. `other`: another replicator."""

    TANIST, MM2, OTHER = "tanist", "mm2", "other"

    @property
    def in_words(self) -> str:
        """Its name in a sentence."""
        return {Copier.TANIST: "Tanist", Copier.MM2: "MirrorMaker 2", Copier.OTHER: "another replicator"}[self]


class CopiedByAnother(Misconfigured):
    """The command copies, fences or opens topics, and the topics of this mirror are those of another replicator."""

    name = "COPIED_BY_ANOTHER"
    operator_action = (
        "the mirror is only followed: `tanist groups sync`, `tanist validate`, `tanist reconcile`, `tanist status` and "
        "`tanist mirrors describe` work on it; nothing was changed"
    )
