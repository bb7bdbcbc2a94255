"""A fetcher's membership in a process of its own, which a test can freeze: prints one JSON line per look."""

from __future__ import annotations

import json
import sys
import time

from tanist.domain.endpoint import Address, Endpoint
from tanist.kafka.adapters.membership import GroupMembership
from tanist.ports.clock import Deadline


def main(address: str, topic: str) -> None:
    """Until it is killed. `held_before`: whether the ownership of the look before is still valid now."""
    host, _, port = address.partition(":")
    endpoint = Endpoint(name="test", bootstrap=(Address(host, int(port)),))
    member = GroupMembership(endpoint, topic, group=topic)
    before = member.poll(Deadline(0.0))
    while True:
        now = member.poll(Deadline(time.monotonic() + 0.1))
        look = {
            "held_before": bool(before.state_partitions) and before.holds_until() > time.monotonic(),
            "slices": sorted(now.state_partitions),
            "holds": now.holds_until() > time.monotonic(),
        }
        before = now
        print(json.dumps({"at": time.monotonic(), **look}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
