"""The proxy of the storms, alone."""

from __future__ import annotations

import asyncio
import gc
import socket
from types import SimpleNamespace
from typing import Any

from tanist_testkit.sandbox.ports import HOST
from tests.storm.proxy import Door, Proxy

SECONDS = 10.0
REQUEST = bytes(10)


def test_a_connection_that_is_cut_again_while_it_ends_is_closed() -> None:
    """It was left open where the second cut came before the first was done: a minute of storm left nine of them."""
    with Proxy() as proxy, socket.create_server((HOST, 0)) as broker:
        cluster: Any = SimpleNamespace(brokers=[SimpleNamespace(port=broker.getsockname()[1])])
        door = proxy.door(cluster)
        host, port = door.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), SECONDS) as client:
            client.sendall(len(REQUEST).to_bytes(4) + REQUEST)
            broker.settimeout(SECONDS)
            there, _ = broker.accept()
            with there:
                there.settimeout(SECONDS)
                assert there.recv(4 + len(REQUEST), socket.MSG_WAITALL).endswith(REQUEST)
                proxy.do(cut_twice(door))
                gc.collect()  # which tells of a connection that nobody has closed
                assert there.recv(1) == b""


async def cut_twice(door: Door) -> None:
    (task,) = door._tasks
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
