"""The messages of kafka-python that we send, and its SASL conversations: the one door to that library.

It reads its schemas with a function that Python 3.11 and 3.12 call deprecated (3.13 took that back): hence the filter.

Why not kio: it has all of these messages and reads the metadata of 10,000 partitions in 6 ms of CPU (kafka-python:
25 ms, 57 the first time), but it has one class for each version of a message, so each request would be written once for
each version that brokers from 2.8 to 4.4 know. A command reads the metadata once. scramp would be a second library
beside the SASL conversations that come with this one.
"""

from __future__ import annotations

import threading
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.net.sasl.abc import SaslMechanism as Conversation
    from kafka.protocol.admin import (
        CreateAclsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteAclsRequest,
        DeleteRecordsRequest,
        DeleteTopicsRequest,
        DescribeAclsRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeLogDirsRequest,
        DescribeProducersRequest,
        DescribeQuorumRequest,
        DescribeTransactionsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        ListGroupsRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import (
        ListOffsetsRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        OffsetForLeaderEpochRequest,
    )
    from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
    from kafka.protocol.producer import (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        EndTxnRequest,
        InitProducerIdRequest,
        TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
    )
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

    class ConsumerGroupDescribeRequest(ApiMessage, load_json="tanist.kafka.wire.schemas"):
        """KIP-848; kafka-python has no such class."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json="tanist.kafka.wire.schemas"):
        """Found by kafka-python through the api key of its request."""


_FIRST_USE = threading.Lock()
_ANSWERS: dict[tuple[int, int | None], type[ApiMessage]] = {}
"""The answers that have been read once, by API key and version of their request."""


def read_answer(request: ApiMessage, frame: bytes) -> ApiMessage:
    """The answer to `request`, from its header on.

    kafka-python compiles the decoder of a message when it is first used, and for that time exchanges the class that
    every thread decodes to: a second thread then compiles one that makes objects of a weak reference, and fails. So the
    first use of each message is one thread's.

    Raises:
        What kafka-python raises where `frame` is no such answer.
    """
    key = request.API_KEY, request.API_VERSION
    known = _ANSWERS.get(key)
    if known is not None:
        return known.decode(frame, header=True)
    with _FIRST_USE:
        kind = request.header.get_response_class()
        assert kind is not None, type(request).__name__  # noqa: S101  # every message class of kafka-python has its pair
        answer = kind.decode(frame, header=True)
        _ANSWERS[key] = kind
        return answer


__all__ = [
    "AddOffsetsToTxnRequest",
    "AddPartitionsToTxnRequest",
    "ApiMessage",
    "ApiVersionsRequest",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "Conversation",
    "CreateAclsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteAclsRequest",
    "DeleteRecordsRequest",
    "DeleteTopicsRequest",
    "DescribeAclsRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeLogDirsRequest",
    "DescribeProducersRequest",
    "DescribeQuorumRequest",
    "DescribeTransactionsRequest",
    "ElectLeadersRequest",
    "EndTxnRequest",
    "FindCoordinatorRequest",
    "IncrementalAlterConfigsRequest",
    "InitProducerIdRequest",
    "ListGroupsRequest",
    "ListOffsetsRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "OffsetCommitRequest",
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "TxnOffsetCommitRequest",
    "WriteTxnMarkersRequest",
    "get_sasl_mechanism",
    "read_answer",
]
