"""Which producer fences in a log speak against its adoption."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.adoption import AdoptableLog, CandidateLog, LogRange, MirrorTopicPromoted
from tanist.domain.gap_markers import LAST_EPOCH
from tanist.kafka.adapters import log_prefixes
from tanist.kafka.adapters.log_prefixes import _Comparison
from tests.builders import AT

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY: Any = None
LOG = LogRange(0, 10, 10, 10)


@pytest.fixture
def fence_at_7(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both logs are idle, and have nothing but the producer fence of a failover."""
    fence: Any = SimpleNamespace(
        is_control=True, producer_id=8, producer_epoch=LAST_EPOCH, base_offset=7, last_offset=7
    )

    def batches(*_: object) -> Iterator[tuple[Any, bytes, bool]]:
        yield fence, b"", False

    monkeypatch.setattr(log_prefixes, "judged_batches", batches)


@pytest.mark.usefixtures("fence_at_7")
def test_a_fence_below_where_copying_began_is_history_and_one_behind_it_is_a_promotion() -> None:
    history = _Comparison(ANY, ANY, AT, CandidateLog(compacted=False, history=8), ANY)
    assert history.adoptable(LOG, LOG) == AdoptableLog(10, 0, frozenset(), frozenset({8}))
    for begins in (0, 7):
        since = _Comparison(ANY, ANY, AT, CandidateLog(compacted=False, history=begins), ANY)
        with pytest.raises(MirrorTopicPromoted, match="a producer fence at offset 7"):
            since.adoptable(LOG, LOG)
