"""S3.13: what the threads of one worker may read, by the limits that they share."""

from __future__ import annotations

from tanist.domain.limits import LimitKey, LimitShare
from tanist.domain.names import MirrorName
from tanist.fetcher.throttle import Throttle
from tests.fakes.clock import JumpingClock

M = MirrorName("m1")
MIRROR, TOPIC = LimitKey(M), LimitKey(M, "orders")
KB = 1_000


def test_without_a_limit_everything_may_be_read() -> None:
    permit = Throttle(JumpingClock()).permit([(), ()])
    assert permit.allows(())
    assert (permit.wait, permit.fetch_bytes, permit.wait_ms(500)) == (None, None, 500)


def test_a_limit_that_is_spent_stops_its_partitions_alone_until_it_is_free() -> None:
    clock = JumpingClock()
    throttle = Throttle(clock)
    throttle.share({MIRROR: LimitShare(100 * KB), TOPIC: LimitShare(10 * KB)})
    before = throttle.permit([(MIRROR, TOPIC), (MIRROR,)])
    assert (before.fetch_bytes, before.of_topic, before.spent) == (20 * KB, {TOPIC: 2 * KB}, frozenset())
    throttle.read({TOPIC: 5 * KB})
    permit = throttle.permit([(MIRROR, TOPIC), (MIRROR,)])
    assert (permit.allows((MIRROR, TOPIC)), permit.allows((MIRROR,))) == (False, True)
    assert permit.wait_ms(500) == 299, "a fetch of the others does not outlast the wait"
    clock.jump(0.31)
    assert throttle.permit([(MIRROR, TOPIC)]).allows((MIRROR, TOPIC))


def test_a_limit_that_is_altered_or_gone_holds_nobody_up_any_more() -> None:
    clock = JumpingClock()
    throttle = Throttle(clock)
    throttle.share({MIRROR: LimitShare(KB)})
    throttle.read({MIRROR: 3_600 * KB})
    assert not throttle.permit([(MIRROR,)]).allows((MIRROR,))
    throttle.share({MIRROR: LimitShare(3_600_000 * KB)})
    clock.jump(0.01)
    assert throttle.permit([(MIRROR,)]).allows((MIRROR,))
    throttle.read({MIRROR: 3_600 * KB * 3_600})
    throttle.share({})
    assert throttle.permit([(MIRROR,)]).allows((MIRROR,))
