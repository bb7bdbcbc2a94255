"""What leaders say of an append to a transaction, in their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import NotEnoughReplicas
from tanist.kafka.wire.copy_transactions import TransactionNotVerified, _refusal

if TYPE_CHECKING:
    from tanist.domain.errors import BrokerError

TOO_FEW = "The size of the current ISR : 2 is insufficient to satisfy the min.isr requirement of 3 for partition t-0"
UNVERIFIED = (
    "Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE"
)


@pytest.mark.parametrize(("message", "kind"), [(TOO_FEW, NotEnoughReplicas), (UNVERIFIED, TransactionNotVerified)])
def test_too_few_replicas_and_a_transaction_that_is_not_verified_are_told_apart(
    message: str, kind: type[BrokerError]
) -> None:
    error = _refusal(NotEnoughReplicas.code, f"append to t-0: {message}")
    assert type(error) is kind
    assert message in error.reason
