"""A proxy in front of a cluster that knows Kafka's request headers: it keeps requests back, delays and cuts them.

A client is given addresses of its own. Brokers' addresses in answers become those of the door, in place: the port is
the four bytes behind the host, so nothing has to be parsed and no length changes. Not for TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from tanist_testkit.sandbox.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from tanist_testkit.sandbox.cluster import SandboxCluster

PRODUCE, INIT_PRODUCER_ID, ADD_OFFSETS_TO_TXN, END_TXN, WRITE_TXN_MARKERS = 0, 22, 25, 26, 27
OFFSET_FETCH, ADD_PARTITIONS_TO_TXN = 9, 24
OFFSET_COMMIT, TXN_OFFSET_COMMIT, CREATE_ACLS, DELETE_ACLS, INCREMENTAL_ALTER_CONFIGS = 8, 28, 30, 31, 44
NAMES: Final = {
    PRODUCE: "Produce",
    OFFSET_COMMIT: "OffsetCommit",
    OFFSET_FETCH: "OffsetFetch",
    INIT_PRODUCER_ID: "InitProducerId",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
    END_TXN: "EndTxn",
    WRITE_TXN_MARKERS: "WriteTxnMarkers",
    TXN_OFFSET_COMMIT: "TxnOffsetCommit",
    CREATE_ACLS: "CreateAcls",
    DELETE_ACLS: "DeleteAcls",
    INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
}
BARRIER: Final = (2**31 - 1).to_bytes(4)
"""The coordinator epoch of a promotion's markers: what only asks whether they stand has another one."""
_NAMING_BROKERS: Final = frozenset({3, 10, 60})
"""Metadata, FindCoordinator, DescribeCluster."""
_SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhi")
"""API key, version, correlation id."""
_SECONDS: Final = 10.0
_LAST_ANSWER_SECONDS: Final = 1.0
"""A broker may drop what it has not begun when its client hangs up; nobody hangs up on a request that was kept back."""
_LOST: Final = (OSError, asyncio.IncompleteReadError, asyncio.CancelledError)


@dataclass(eq=False)
class Held:
    """The request of `key` that is to be kept back: the first behind `skip` others of which `part` is a part.

    `answer`: it goes to its broker at once, and its answer is lost with the connection.
    """

    key: int
    part: bytes = b""
    skip: int = 0
    answer: bool = False
    _caught: threading.Event = field(default_factory=threading.Event)
    _free: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def wait(self, seconds: float) -> bool:
        """Whether it has come, and stands here now; or its answer has come, and is lost."""
        return self._caught.wait(seconds)

    @property
    def caught(self) -> bool:
        return self._caught.is_set()

    def release(self) -> None:
        """It goes on to its broker, also where whoever sent it has hung up meanwhile."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._free.set)

    def takes(self, key: int, frame: bytes) -> bool:
        """Whether this is the one."""
        if key != self.key or self.caught or self._free.is_set() or self.part not in frame:
            return False
        self.skip -= 1
        if self.skip < 0 and self.answer:
            self._free.set()
        return self.skip < 0

    def lose(self) -> None:
        """The answer is there, and nobody gets it."""
        self._caught.set()

    async def keep(self) -> None:
        self._caught.set()
        await self._free.wait()


class Door:
    """To all brokers of one cluster, for one client or several. `seen`: how many requests of each API key have come."""

    def __init__(self, proxy: Proxy, cluster: SandboxCluster) -> None:
        self.seen: Counter[int] = Counter()
        self.delay = 0.0
        """Seconds that each request and each answer takes longer."""
        self._passing = asyncio.Event()
        self._passing.set()
        self._proxy = proxy
        self._holds: list[Held] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._ports: dict[int, int] = {}
        proxy.do(self._open([broker.port for broker in cluster.brokers]))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def hold(self, key: int, part: bytes = b"", *, skip: int = 0, answer: bool = False) -> Held:
        """Keep back one request from now on, or lose its `answer`."""
        held = Held(key, part, skip, answer, _loop=self._proxy.loop)
        self._holds.append(held)
        return held

    def close(self) -> None:
        """Whatever is kept back is lost; connections end."""
        self._proxy.do(self._close())

    def cut(self) -> None:
        """End all connections; what is on its way is lost. New ones are taken at once."""
        self._proxy.do(self._cut())

    def silence(self) -> None:
        """Nothing gets through until `speak`, and no connection ends."""
        self._proxy.loop.call_soon_threadsafe(self._passing.clear)

    def speak(self) -> None:
        self._proxy.loop.call_soon_threadsafe(self._passing.set)

    async def _open(self, ports: Sequence[int]) -> None:
        for port in ports:
            server = await asyncio.start_server(partial(self._serve, port), HOST, 0)
            self._servers.append(server)
            self._ports[port] = server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._cut()

    async def _cut(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _travel(self) -> None:
        await asyncio.sleep(self.delay)
        await self._passing.wait()

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until both sides have hung up: a request that is kept back outlives its sender."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.closing(writer), contextlib.suppress(*_LOST):
            there, to_there = await asyncio.open_connection(HOST, port)
            asked: dict[int, int] = {}
            unanswered: dict[int, Held] = {}
            with contextlib.closing(to_there):  # also where a second cut comes while the first is awaited
                answers = asyncio.create_task(self._answers(there, writer, asked, unanswered))
                try:
                    await self._requests(reader, to_there, asked, unanswered)
                except asyncio.IncompleteReadError:
                    if any(held.caught for held in self._holds):
                        await asyncio.wait({answers}, timeout=_LAST_ANSWER_SECONDS)
                finally:
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        asked: dict[int, int],
        unanswered: dict[int, Held],
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, _version, number = _HEADER.unpack_from(frame)
            self.seen[key] += 1
            if held := next((each for each in self._holds if each.takes(key, frame)), None):
                if held.answer:
                    unanswered[number] = held
                else:
                    await held.keep()
            if key in _NAMING_BROKERS:
                asked[number] = key
            await self._travel()
            to.write(_SIZE.pack(len(frame)) + frame)
            await to.drain()

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        asked: dict[int, int],
        unanswered: dict[int, Held],
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                (number,) = _SIZE.unpack_from(frame)
                if (held := unanswered.pop(number, None)) is not None:
                    held.lose()
                    break
                if asked.pop(number, None) is not None:
                    frame = self._renamed(frame)
                await self._travel()
                to.write(_SIZE.pack(len(frame)) + frame)
                await to.drain()
        to.close()

    def _renamed(self, frame: bytes) -> bytes:
        for port, ours in self._ports.items():
            frame = frame.replace(HOST.encode() + _SIZE.pack(port), HOST.encode() + _SIZE.pack(ours))
        return frame


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(_SIZE.unpack(await reader.readexactly(_SIZE.size))[0])


class Proxy:
    """Where doors are: one thread for all of them."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._doors: list[Door] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for door in self._doors:
            door.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_SECONDS)
        self.loop.close()

    def door(self, cluster: SandboxCluster) -> Door:
        """One more, to all brokers of `cluster`; it is closed with the proxy, if not before."""
        self._doors.append(Door(self, cluster))
        return self._doors[-1]

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """In the proxy's thread; returns when it is done."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(_SECONDS)
