"""Approvals as bytes: written and read back, and whatever else somebody may have written there."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.choosing import choose
from tanist.domain.approval.entries import LONGEST_MS, Approval, ApprovalRequest, NotApproved, Withdrawal
from tanist.domain.approval.words import hash_of
from tanist.domain.checks import Mode
from tanist.domain.failover.plan import Plan
from tanist.domain.names import EpochMs, MirrorName
from tanist.kafka.protocol.stored import decode_approval, encode_approval, encode_withdrawal
from tanist.usecases.approvals import read_plan
from tanist.usecases.failover.approval_gate import FAILOVERS
from tests.unit.domain.facts_drawn import intents

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Entry

UNREAD: Any = None
"""No mirror is looked at before the words can be read."""
DR, NOW = MirrorName("dr"), EpochMs(1_700_000_000_000)
WORDS = '{"a":"ü"}'
ASKED = ApprovalRequest(
    mirror=DR, plan=hash_of(WORDS), plan_json=WORDS, request="command/1", reason="drill, 3 °C", valid_for_ms=60_000
)
PLAN = Plan(intents()[Mode.UNPLANNED], (), ()).canonical_plan
GOOD: dict[str, Any] = json.loads(encode_approval(ASKED, "alice"))
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "\ud800",
    "\x00",
    "1",
    [],
    {},
    [[{}]],
)


def entry(value: bytes | None) -> Entry | None:
    return decode_approval(value, "0-0", NOW)


def read(value: bytes | None) -> Approval | None:
    """As an approval."""
    found = entry(value)
    assert not isinstance(found, Withdrawal)
    return found


def but(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_what_was_written_is_read_back() -> None:
    found = read(encode_approval(ASKED, "alice"))
    assert found is not None
    assert found.genuine
    assert (found.approver, found.reason, found.expires_at) == ("alice", "drill, 3 °C", NOW + 60_000)
    assert found.request == "command/1"
    assert read(but(more="what a later version says besides")) == found


def test_an_approval_from_before_requests_is_still_read_and_answers_none() -> None:
    words = {name: value for name, value in GOOD.items() if name != "request"}
    found = read(json.dumps(words | {"v": 1}).encode())
    assert found is not None
    assert (found.approver, found.request) == ("alice", "")


def test_an_approval_with_the_ends_of_reserves_is_still_read() -> None:
    """Versions before stored them; they bind nothing."""
    stored = json.loads(encode_approval(replace(ASKED, plan_json=PLAN, plan=hash_of(PLAN)), "alice"))
    assert "reserve_to" not in stored, "nothing is written any more that binds nothing"
    now = read(json.dumps(stored).encode())
    before = read(json.dumps(stored | {"reserve_to": [["orders", [0, 592]], ["bills", [7]]]}).encode())
    assert now is not None
    assert before is not None
    assert before.genuine
    assert (now.reserve_to, before.reserve_to) == ((), (("orders", (0, 592)), ("bills", (7,))))
    assert FAILOVERS.read(before.plan_json) == FAILOVERS.read(now.plan_json)


@pytest.mark.parametrize(
    "odd", [[["orders", [1.5]]], [["orders"]], [["\ud800", [1]]], {"orders": [1]}, [["orders", ["1"]]]]
)
def test_reserves_that_are_none_make_no_approval(odd: Any) -> None:
    assert read(but(reserve_to=odd)) is None


def test_a_version_that_knows_no_requests_does_not_take_an_approval_for_anybodys() -> None:
    """It reads version 1 only: an approval for one run would permit any."""
    assert GOOD["v"] == 2


@pytest.mark.parametrize("request_named", ["run/airflow/1", ""])
def test_a_withdrawal_is_read_back_and_is_no_approval(request_named: str) -> None:
    no = Withdrawal(mirror=DR, plan=ASKED.plan, request=request_named, reason="op said no")
    value = encode_withdrawal(no, "User:approver")
    found = entry(value)
    assert isinstance(found, Withdrawal)
    assert (found.mirror, found.plan, found.request) == (DR, ASKED.plan, request_named)
    assert found.reason == "op said no (User:approver)"
    assert entry(value.replace(b"op said", b"\xed\xa0\x80")) is None
    assert not {"shown", "approver", "valid_for_ms"} & json.loads(value).keys(), "a version before cannot read it"


@pytest.mark.parametrize("valid", [float("inf"), float("nan"), 0, -1, LONGEST_MS + 1, 10**400, 60_000.0, "60000", True])
def test_an_approval_that_holds_for_ever_blocks_no_failover(valid: object) -> None:
    """`Infinity` ended every run of every mirror with a bug of ours."""
    assert read(but(mirror="zz", valid_for_ms=valid)) is None


@pytest.mark.parametrize("value", [b"[" * 200_000, b'{"v":' * 200_000, b"", None, b"\xff\xfe", b"\x00", b"null", b"1"])
def test_a_value_that_is_no_object_approves_nothing(value: bytes | None) -> None:
    assert read(value) is None


@pytest.mark.parametrize("field", ["mirror", "plan", "shown", "approver", "reason"])
def test_half_a_character_approves_nothing(field: str) -> None:
    """Nothing can hash, print or store it."""
    assert read(but(**{field: "\ud800"})) is None
    assert read(json.dumps({**GOOD, field: "X"}).encode().replace(b'"X"', b'"\xed\xa0\x80"')) is None


def test_words_that_nest_too_deep_are_no_plan() -> None:
    words = "[" * 200_000
    found = read(but(shown=words, plan=hash_of(words)))
    assert found is not None
    with pytest.raises(NotApproved, match="cannot be read"):
        read_plan(FAILOVERS, found, UNREAD)


def test_whatever_bytes_lie_there_the_good_approval_is_found() -> None:
    """Odd values of every field, and broken bytes: none raises, and none is taken for an approval of our plan."""
    dice = random.Random(7)  # the same bytes each time
    good = read(encode_approval(ASKED, "alice"))
    assert good is not None
    for _ in range(3_000):
        changed = {name: dice.choice(ODD) if dice.random() < 0.3 else value for name, value in GOOD.items()}
        kept = {name: value for name, value in changed.items() if dice.random() < 0.97}
        value = bytearray(json.dumps(kept, ensure_ascii=dice.random() < 0.5).encode(errors="surrogatepass"))
        for _ in range(dice.choice((0, 0, 1, 5))):
            value[dice.randrange(len(value))] = dice.randrange(256)
        found = entry(bytes(value))
        assert not isinstance(found, Approval) or (
            0 < found.valid_for_ms <= LONGEST_MS and isinstance(found.genuine, bool)
        )
        heard = [each for each in (found, good) if each is not None]
        assert choose(heard, (), DR, GOOD["plan"]).plan_json == WORDS
