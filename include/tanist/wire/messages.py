"""The messages of kafka-python that we send, and its SASL conversations: the one door to that library.

It reads its schemas with a function that Python 3.11 and 3.12 call deprecated (3.13 took that back): hence the filter.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.net.sasl.abc import SaslMechanism as Conversation
    from kafka.protocol.admin import (
        CreateAclsRequest,
        DeleteAclsRequest,
        DeleteRecordsRequest,
        DescribeAclsRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        ListGroupsRequest,
        ListTransactionsRequest,
    )
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import (
        ListOffsetsRequest,
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

    class ConsumerGroupDescribeRequest(ApiMessage, load_json="tanist.wire.schemas"):
        """KIP-848; kafka-python has no such class."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json="tanist.wire.schemas"):
        """Found by kafka-python through the api key of its request."""


__all__ = [
    "AddOffsetsToTxnRequest",
    "AddPartitionsToTxnRequest",
    "ApiMessage",
    "ApiVersionsRequest",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "Conversation",
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "DeleteRecordsRequest",
    "DescribeAclsRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeProducersRequest",
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
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "TxnOffsetCommitRequest",
    "WriteTxnMarkersRequest",
    "get_sasl_mechanism",
]
