"""ACLs, dynamic configs and leader elections. Codes stay numbers as on the wire, so that unknown ones are kept."""

from __future__ import annotations

import time
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tanist.domain.acls import AclBinding
from tanist.domain.broker_errors import NotController
from tanist.domain.errors import TanistError, TimedOut, Unreachable
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.leaders import by_topic
from tanist.kafka.wire.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from tanist.kafka.wire.requests import left_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

ANY = 1
"""Of a resource type, pattern type, operation or permission in a filter."""


class AccessFilter(NamedTuple):
    """Selects ACLs, by default all. None and ANY match everything."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY


TOPIC_ITSELF = 1
"""ConfigSource of a value that was set on the topic (DYNAMIC_TOPIC_CONFIG)."""


class ConfigKind(IntEnum):
    TOPIC, BROKER = 2, 4


class ConfigResource(NamedTuple):
    """A broker's name is its number as text, or empty for the default of all brokers."""

    kind: ConfigKind
    name: str


class ConfigValue(NamedTuple):
    """`value` is None where it is secret. `source`: 1 topic, 2 broker, 3 all brokers, 4 its file, 5 default."""

    value: str | None
    source: int
    read_only: bool


class Election(IntEnum):
    PREFERRED, UNCLEAN = 0, 1


def api_versions(connection: Connection) -> Mapping[int, tuple[int, int]]:
    """The broker's versions, read when the connection was opened: API key to (lowest, highest) version."""
    return connection.versions


def describe_acls(router: Router, which: AccessFilter, by: Deadline) -> tuple[AclBinding, ...]:
    """All ACLs that match.

    Raises:
        SecurityDisabled: the cluster has no authorizer. ClusterAuthorizationFailed: DESCRIBE on the cluster is missing.
    """
    connection = router.any_connection(by)
    request = DescribeAclsRequest(version=connection.version(DescribeAclsRequest, 1, 3), **_filter(which))
    answer = connection.call(request, by)
    _raise_for(answer, "access rules")
    return tuple(
        AclBinding(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for resource in answer.resources
        for rule in resource.acls
    )


def create_acls(router: Router, rules: Sequence[AclBinding], by: Deadline) -> list[TanistError | None]:
    """One result for each ACL, in order; one that exists already is not an error."""
    connection = controller(router, by)
    kind = CreateAclsRequest.AclCreation
    creations = [
        kind(
            resource_type=rule.resource_type,
            resource_name=rule.resource_name,
            resource_pattern_type=rule.pattern_type,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    version = connection.version(CreateAclsRequest, 1, 3)
    answer = _change(connection, CreateAclsRequest(creations=creations, version=version), by)
    return [_error(each, f"creating {rule}") for rule, each in zip(rules, answer.results, strict=True)]


def delete_acls(
    router: Router, filters: Sequence[AccessFilter], by: Deadline
) -> list[tuple[AclBinding, ...] | TanistError]:
    """The ACLs that each filter has deleted, in order."""
    connection = controller(router, by)
    kind = DeleteAclsRequest.DeleteAclsFilter
    version = connection.version(DeleteAclsRequest, 1, 3)
    request = DeleteAclsRequest(filters=[kind(**_filter(which)) for which in filters], version=version)
    answer = _change(connection, request, by)
    pairs = zip(filters, answer.filter_results, strict=True)
    return [_error(each, f"deleting {which}") or _deleted(each) for which, each in pairs]


def _deleted(each: Any) -> tuple[AclBinding, ...]:
    return tuple(
        AclBinding(
            rule.resource_type,
            rule.resource_name,
            rule.pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for rule in each.matching_acls
        if rule.error_code == NONE
    )


def _filter(which: AccessFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": which.resource_type,
        "resource_name_filter": which.resource_name,
        "pattern_type_filter": which.pattern_type,
        "principal_filter": which.principal,
        "host_filter": which.host,
        "operation": which.operation,
        "permission_type": which.permission,
    }


def describe_configs(
    router: Router, resource: ConfigResource, names: Iterable[str] | None, by: Deadline
) -> dict[str, ConfigValue]:
    """The values of `names`, or of all configs (None), from any broker; those of a broker from that broker.

    Raises:
        BrokerError: names the resource. A name that the broker does not know is left out.
    """
    connection = _config_connection(router, resource, by)
    kind = DescribeConfigsRequest.DescribeConfigsResource
    wanted = kind(
        resource_type=resource.kind,
        resource_name=resource.name,
        configuration_keys=None if names is None else list(names),
    )
    version = connection.version(DescribeConfigsRequest, 1, 4)
    request = DescribeConfigsRequest(
        resources=[wanted], include_synonyms=False, include_documentation=False, version=version
    )
    answer = connection.call(request, by).results[0]
    _raise_for(answer, f"configuration of {resource}")
    return {each.name: _value(each) for each in answer.configs}


def _value(each: Any) -> ConfigValue:
    return ConfigValue(each.value, each.config_source, each.read_only)


def topic_configs(
    router: Router, topics: Sequence[str], by: Deadline, names: Collection[str] | None = None
) -> dict[str, dict[str, ConfigValue] | TanistError]:
    """What applies to each topic, as the broker that is asked knows it. `names`: of configs, at least one; None: all.

    Raises:
        ValueError: `names` is empty, which brokers take for all of them.
    """
    if names is not None and not names:
        raise ValueError("no configuration is named")
    if not topics:
        return {}
    keys = None if names is None else sorted(names)
    kind = DescribeConfigsRequest.DescribeConfigsResource
    connection = router.any_connection(by)
    request = DescribeConfigsRequest(
        resources=[
            kind(resource_type=ConfigKind.TOPIC, resource_name=name, configuration_keys=keys) for name in topics
        ],
        include_synonyms=False,
        include_documentation=False,
        version=connection.version(DescribeConfigsRequest, 1, 4),
    )
    return {
        each.resource_name: _error(each, f"configuration of topic {each.resource_name!r}")
        or {config.name: _value(config) for config in each.configs}
        for each in connection.call(request, by).results
    }


def topic_config(
    router: Router, topics: Iterable[str], name: str, by: Deadline
) -> dict[str, ConfigValue | TanistError | None]:
    """One config in effect on each topic (None: the cluster does not know it), or the error."""
    found = topic_configs(router, sorted(set(topics)), by, [name])
    return {topic: each if isinstance(each, TanistError) else each.get(name) for topic, each in found.items()}


def alter_configs(
    router: Router,
    resource: ConfigResource,
    changes: Mapping[str, str | None],
    by: Deadline,
    *,
    validate_only: bool = False,
) -> None:
    """Set each config to its value; None deletes the dynamic value. All or nothing.

    Raises:
        InvalidConfig, PolicyViolation, TopicAuthorizationFailed, ClusterAuthorizationFailed: with the broker's reason.
    """
    connection = _config_connection(router, resource, by)
    version = connection.version(IncrementalAlterConfigsRequest, 0, 1)
    wanted = [_altered(resource, changes)]
    request = IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only, version=version)
    _raise_for(_change(connection, request, by).responses[0], f"configuration of {resource}")


def alter_topic_configs(
    router: Router, changes: Mapping[str, Mapping[str, str | None]], by: Deadline
) -> dict[str, TanistError | None]:
    """The same of many topics in one request, of each all or nothing; a controller takes its time for each request."""
    connection = router.any_connection(by)
    wanted = [_altered(ConfigResource(ConfigKind.TOPIC, topic), some) for topic, some in changes.items()]
    version = connection.version(IncrementalAlterConfigsRequest, 0, 1)
    request = IncrementalAlterConfigsRequest(resources=wanted, validate_only=False, version=version)
    return {
        each.resource_name: _error(each, f"configuration of topic {each.resource_name}")
        for each in _change(connection, request, by).responses
    }


def _altered(resource: ConfigResource, changes: Mapping[str, str | None]) -> Any:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        kind.AlterableConfig(name=name, config_operation=int(value is None), value=value)
        for name, value in changes.items()
    ]
    return kind(resource_type=resource.kind, resource_name=resource.name, configs=configs)


def elect_leaders(
    router: Router, election: Election, partitions: Iterable[TopicPartition], by: Deadline
) -> Answers[TopicPartition, None]:
    """Ask the controller for elections; ElectionNotNeeded if the right replica leads already."""
    connection = controller(router, by)
    kind = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=election,
        topic_partitions=[kind(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions)],
        timeout_ms=left_ms(by),
        version=connection.version(ElectLeadersRequest, 1, 2),
    )
    answer = connection.call(request, by)
    _raise_for(answer, "elections")
    return {
        TopicPartition(topic.topic, each.partition_id): _error(each, f"election in {topic.topic}-{each.partition_id}")
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def controller(router: Router, by: Deadline) -> Connection:
    """A connection to the controller; if it does not answer, to any broker.

    With ZooKeeper only the controller changes anything. With KRaft every broker forwards to the real one, and metadata
    names an ordinary broker as the controller, for a moment also one that has just died.
    """
    if router.controller is None:
        router.refresh([], by)
    if router.controller is None:
        raise NotController(f"cluster {router.endpoint.name!r} has no controller")
    try:
        return router.connection(router.controller, by)
    except Unreachable:
        router.refresh([], by)
        return router.any_connection(by)


def _config_connection(router: Router, resource: ConfigResource, by: Deadline) -> Connection:
    if resource.kind is ConfigKind.TOPIC or not resource.name:
        return router.any_connection(by)
    return router.connection(BrokerId(int(resource.name)), by)


def _change(connection: Connection, request: ApiMessage, by: Deadline) -> Any:
    """The answer to a request that changes the cluster. Never sent after its deadline, when it would act late."""
    if not by.left(time.monotonic()):
        raise TimedOut(f"{connection.peer}: {type(request).__name__} was not sent: its deadline had passed")
    return connection.call(request, by)


def _error(each: Any, context: str) -> TanistError | None:
    if each.error_code == NONE:
        return None
    return error_for(each.error_code, f"{context}: {each.error_message}" if each.error_message else context)


def _raise_for(each: Any, context: str) -> None:
    reason = getattr(each, "error_message", None)
    if each.error_code != NONE:
        raise error_for(each.error_code, f"{context}: {reason}" if reason else context)
