"""Records of `__consumer_offsets`, as a broker of Kafka 4.3.1 has written them."""

from __future__ import annotations

from struct import pack

import pytest

from tanist.kafka.protocol.group_log import (
    GroupGone,
    GroupSeen,
    LoggedCommit,
    Other,
    Removed,
    UnreadableGroupRecord,
    parse,
)
from tests.builders import AT

COMMIT_KEY = "0001000762696c6c696e6700066f726465727300000000"
COMMIT = "00040000000000000004ffffffff0962792068616e6400000001a1fd9eb35f0100105e2069c30047457480e403ef6db1589f"
GROUP_KEY = "0002000762696c6c696e67"
GROUP = (
    "00030008636f6e73756d657200000001000572616e6765002769312d34323261393965632d613739622d343732622d393962342d336162646361"
    "623734613064000001a1fd9eb27b00000001002769312d34323261393965632d613739622d343732622d393962342d336162646361623734613064"
    "000269310003617070000a2f3132372e302e302e31000493e0000017700000001c00030000000100066f72646572730000000000000000ffffffff"
    "00000000001a00000000000100066f7264657273000000010000000000000000"
)
MEMBER_KEY = "{:04x}00066d6f6465726e001665504e4e4e556476545a4b542f4a30724735514c5051"

GOLDEN = [
    (COMMIT_KEY, COMMIT, LoggedCommit("billing", AT, 4, -1, "by hand\0", 1795256398687)),  # type: ignore[arg-type]
    ("000100066d6f6465726e00066f726465727300000000", None, Removed("modern", AT)),
    (GROUP_KEY, GROUP, GroupSeen("billing", "classic", 1)),
    ("00020004676f6e65", None, GroupGone("gone", "classic")),
    ("000300066d6f6465726e", "000000000002010008322983f47edcd7a1", GroupSeen("modern", "consumer", None)),
    ("000300066d6f6465726e", None, GroupGone("modern", "consumer")),
    (
        MEMBER_KEY.format(5),
        "000000000872646b61666b610b2f3132372e302e302e3102076f726465727301000493e00001000100",
        Other(5, "modern", gone=False),
    ),
    ("000600066d6f6465726e", "000000000002010008000001a1fd9eb3f0", Other(6, "modern", gone=False)),
    (MEMBER_KEY.format(7), "0000025e2069c30047457480e403ef6db1589f02000000000000", Other(7, "modern", gone=False)),
    (MEMBER_KEY.format(8), None, Other(8, "modern", gone=True)),
    ("000400066d6f6465726e", None, Other(4, "", gone=True)),
]


@pytest.mark.parametrize(("key", "value", "event"), GOLDEN)
def test_what_a_broker_has_written(key: str, value: str | None, event: object) -> None:
    assert parse(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == event


@pytest.mark.parametrize(("key", "value"), [(COMMIT_KEY, COMMIT), (GROUP_KEY, GROUP)])
def test_every_cut_is_noticed(key: str, value: str) -> None:
    """In the key and in the value; never a half-read position."""
    whole_key, whole = bytes.fromhex(key), bytes.fromhex(value)
    for cut in range(len(whole)):
        with pytest.raises(UnreadableGroupRecord):
            parse(whole_key, whole[:cut])
    for cut in range(2, len(whole_key)):
        with pytest.raises(UnreadableGroupRecord):
            parse(whole_key[:cut], whole)
    with pytest.raises(UnreadableGroupRecord, match="too many"):
        parse(whole_key, whole + b"\0")
    with pytest.raises(UnreadableGroupRecord):
        parse(b"", whole)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_positions_of_older_brokers(version: int) -> None:
    """Expiry in v1 only, the leader epoch since v3."""
    value = pack(">hq", version, 7) + (pack(">i", 5) if version == 3 else b"") + pack(">h", 2) + b"ab" + pack(">q", 99)
    value += pack(">q", 1) if version == 1 else b""
    found = parse(bytes.fromhex(COMMIT_KEY), value)
    assert found == LoggedCommit("billing", AT, 7, 5 if version == 3 else -1, "ab", 99)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_classic_groups_of_older_brokers(version: int) -> None:
    text = pack(">h", 1) + b"x"
    value = pack(">h", version) + text + pack(">i", 3) + text + text
    value += pack(">q", 1) if version >= 2 else b""
    member = text * 3 + (pack(">i", 1) if version >= 1 else b"") + pack(">i", 1) + (pack(">i", 1) + b"?") * 2
    assert parse(bytes.fromhex(GROUP_KEY), value + pack(">i", 2) + member * 2) == GroupSeen("billing", "classic", 2)


def test_what_came_after_us() -> None:
    """A newer value is told, an unknown type of key passes by."""
    with pytest.raises(UnreadableGroupRecord, match="version 9"):
        parse(bytes.fromhex(COMMIT_KEY), b"\0\x09" + bytes.fromhex(COMMIT)[2:])
    assert parse(b"\0\x63whatever", b"x") == Other(0x63, "", gone=False)
