"""The protocol versions with which records are copied from and to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import UnsupportedVersion
from tanist.kafka.wire import requests
from tanist.kafka.wire.hot import fetch_version, produce_version
from tanist.kafka.wire.messages import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from tanist.kafka.wire.offset_commits import TXN_OFFSET_COMMIT
from tanist.kafka.wire.transactions import INIT_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage


def negotiated(connection: Connection) -> Mapping[str, int]:
    """By the name of the request. One that the broker does not support is not in it."""
    asked = (
        ("ListOffsets", ListOffsetsRequest, requests.LIST_OFFSETS),
        ("OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, requests.LEADER_EPOCHS),
        ("WriteTxnMarkers", WriteTxnMarkersRequest, requests.WRITE_TXN_MARKERS),
        ("InitProducerId", InitProducerIdRequest, INIT_PRODUCER_ID),
        ("TxnOffsetCommit", TxnOffsetCommitRequest, TXN_OFFSET_COMMIT),
        ("DescribeProducers", DescribeProducersRequest, requests.DESCRIBE_PRODUCERS),
    )
    found = {"Fetch": fetch_version(connection).number, "Produce": produce_version(connection).number}
    for name, request, spoken in asked:
        if (version := _version(connection, request, spoken)) is not None:
            found[name] = version
    return found


def _version(connection: Connection, request: type[ApiMessage], spoken: tuple[int, int]) -> int | None:
    try:
        return connection.version(request, *spoken)
    except UnsupportedVersion:
        return None
