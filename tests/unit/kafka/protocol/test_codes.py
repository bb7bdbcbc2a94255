"""One code, one class; the next step is always said."""

from __future__ import annotations

from tanist.domain.broker_errors import BY_CODE, TABLE, CodedError, NotLeader, OutOfOrderSequence
from tanist.domain.errors import BrokerError
from tanist.kafka.protocol.codes import error_for


def test_every_row_has_a_code_and_a_name_of_its_own_and_says_what_to_do() -> None:
    kinds = CodedError.__subclasses__()
    assert {kind.code for kind in kinds} == {row.code for row in TABLE} == set(BY_CODE)
    assert len(kinds) == len(TABLE) == len(BY_CODE)
    assert all(kind.code > 0 and kind.operator_action and kind.name.isupper() for kind in kinds)
    assert len({kind.name for kind in kinds}) == len(kinds)


def test_an_error_carries_its_context() -> None:
    error = error_for(6, "append to orders-3")
    assert isinstance(error, NotLeader)
    assert error.retriable
    assert str(error).startswith("NOT_LEADER_OR_FOLLOWER: append to orders-3 (")
    assert type(error_for(45, "x")) is OutOfOrderSequence


def test_a_code_that_no_module_names_is_reported_by_its_row() -> None:
    error = error_for(56, "append to orders-3")
    assert (error.name, error.code, error.retriable) == ("KAFKA_STORAGE_ERROR", 56, True)


def test_a_code_from_the_future_is_told_by_its_number() -> None:
    assert type(error_for(9999, "x")) is BrokerError
    assert "9999" in str(error_for(9999, "x"))
