"""Whether the brokers of a destination can take the transactions of a mirror with mapped offsets, and how safely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.errors import Misconfigured, UnsupportedVersion
from tanist.domain.fake_group import MOST_BYTES
from tanist.domain.mapped_settings import TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.errors import TanistError

REQUESTS: Final = ("InitProducerId", "TxnOffsetCommit", "DescribeProducers")
"""What workers ask of coordinators, and a failover of leaders, in versions that brokers speak from Kafka 2.8 on."""
LONGEST_TIMEOUT: Final = "transaction.max.timeout.ms"
LONGEST_METADATA: Final = "offset.metadata.max.bytes"
VERIFICATION: Final = "transaction.partition.verification.enable"
"""Set by default from Kafka 3.6 on, which is the first version that has it (KIP-890)."""

_HANGING: Final = (
    "a request that arrives late can leave a transaction open that no timeout ends, and consumers that read committed "
    "wait for it (`kafka-transactions.sh find-hanging` finds it, `abort` ends it)"
)


class TransactionsTooOld(UnsupportedVersion):
    operator_action = (
        "upgrade the brokers of the destination to Kafka 2.8 or newer, or leave out `--offsets mapped`; "
        "nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSupport:
    """Of the cluster of this name and address. `lacking`: requests that its brokers do not speak.

    `longest_ms`: the longest timeout that it grants. `metadata_bytes`: the most that it takes beside a position.
    `verified`: whether a leader asks the coordinator before it appends to a transaction. `verifies`: whether brokers
    have that setting. None: this login may not read the configuration of brokers.
    """

    cluster: str
    bootstrap: str
    lacking: tuple[str, ...] = ()
    longest_ms: int | None = None
    metadata_bytes: int | None = None
    verified: bool | None = None
    verifies: bool | None = None

    @classmethod
    def of(cls, cluster: str, bootstrap: str, versions: Mapping[str, int], configs: Mapping[str, str] | None) -> Self:
        """From the protocol versions that are spoken with the cluster, and the configuration of a broker."""
        lacking = tuple(name for name in REQUESTS if name not in versions)
        if configs is None:
            return cls(cluster=cluster, bootstrap=bootstrap, lacking=lacking)
        longest, metadata = configs.get(LONGEST_TIMEOUT), configs.get(LONGEST_METADATA)
        return cls(
            cluster=cluster,
            bootstrap=bootstrap,
            lacking=lacking,
            longest_ms=None if longest is None else int(longest),
            metadata_bytes=None if metadata is None else int(metadata),
            verified=configs.get(VERIFICATION) == "true",
            verifies=VERIFICATION in configs,
        )

    def refusals(self) -> Iterator[TanistError]:
        """Why nothing can be copied there in transactions."""
        if self.lacking:
            spoken = ", ".join(self.lacking)
            yield TransactionsTooOld(f"brokers of {self.cluster!r} do not speak {spoken} in the versions of Kafka 2.8")
        if self.longest_ms is not None and self.longest_ms < TIMEOUT_MS:
            yield Misconfigured(
                f"{LONGEST_TIMEOUT} of {self.cluster!r} is {self.longest_ms}, and transactions of workers time out "
                f"after {TIMEOUT_MS} ms: raise it in the configuration of its brokers, or leave out --offsets mapped"
            )
        if self.metadata_bytes is not None and self.metadata_bytes < MOST_BYTES:
            yield Misconfigured(
                f"{LONGEST_METADATA} of {self.cluster!r} is {self.metadata_bytes}, and what proves a position of the "
                f"mirror takes up to {MOST_BYTES} bytes beside it: raise it in the configuration of its brokers, or "
                "leave out --offsets mapped"
            )

    @property
    def switched_off(self) -> bool:
        """Whether the brokers could verify transactions, and are told not to."""
        return self.verifies is True and self.verified is False

    @property
    def warning(self) -> str:
        """What somebody should know who copies there in transactions; empty: nothing."""
        if self.verified is None:
            return (
                f"{VERIFICATION} and {LONGEST_TIMEOUT} of {self.cluster!r} are not known: this login lacks "
                "DESCRIBE_CONFIGS on Cluster kafka-cluster"
            )
        if not self.verifies:
            return (
                f"brokers of {self.cluster!r} are older than Kafka 3.6 and do not verify transactions: {_HANGING}; "
                "those older than 3.3 refuse the offsets of consumer groups that a failover commits"
            )
        if self.switched_off:
            return f"{VERIFICATION} of {self.cluster!r} is false: {_HANGING}; switch it on: {self._switching_on}"
        return ""

    @property
    def _switching_on(self) -> str:
        return (
            f"kafka-configs.sh --bootstrap-server {self.bootstrap} --alter --entity-type brokers --entity-default "
            f"--add-config {VERIFICATION}=true"
        )
