"""What is played between two comparisons with nothing: one mirror, or one after the other under the same name."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tests.storm.lifetime import Lifetime
from tests.storm.mishaps import BEFORE_DELETION, Verb
from tests.storm.operators import Scene, Story
from tests.storm.recreation import Recreation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka.failover.conftest import Pair
    from tests.storm.operators import Tally
    from tests.storm.proxy import Proxy
    from tests.storm.traffic import Clients

RECREATED: Final = 3
"""Every third episode deletes its mirror and makes another one under the name."""


@dataclass(slots=True)
class Episode:
    """`play` it; what is wrong then stands in `story.wrong`, and how it came to that in `story.history`."""

    story: Story
    scene: Scene
    number: int
    dice: Random

    @classmethod
    def new(cls, pair: Pair, proxy: Proxy, tally: Tally, number: int, seed: int, home: Path) -> Episode:
        names = tuple(f"e{number}-{letter}" for letter in "ab")
        home.mkdir(exist_ok=True)
        story = Story()
        scene = Scene(
            story=story,
            pair=pair,
            proxy=proxy,
            tally=tally,
            mirror=f"m{number}",
            topics=names,
            extra=f"e{number}-c",
            home=home,
        )
        return cls(story, scene, number, Random(f"{seed}/{number}"))

    @property
    def recreates(self) -> bool:
        return self.number % RECREATED == RECREATED - 1

    def play(self) -> None:
        self.scene.tally.add("figures", "episodes")
        first = Lifetime(self.scene, f"g{self.number}", self.dice)
        first.make_topics(first.everything)
        first.make()
        first.approve()
        if self.recreates:
            self._recreated(first)
        else:
            self._alone(first)

    def _alone(self, mirror: Lifetime) -> None:
        clients = mirror.clients("east")
        with self._at_work(mirror, clients):
            mirror.operate([Verb.AGAIN], sleep=False)
            self._woken_late(mirror, clients)
        mirror.compare(clients)

    def _woken_late(self, mirror: Lifetime, clients: Clients) -> None:
        """Everything is judged, also after those who sleep have woken."""
        mirror.settle()
        mirror.judged(clients)
        if mirror.scene.asleep:
            mirror.wake()
            mirror.settle()
            mirror.judged(clients)

    def _recreated(self, first: Lifetime) -> None:
        """Commands of the first mirror sleep until the second one is there, and is or is not at work."""
        dice = self.dice
        clients = first.clients("east")
        recreation = Recreation(first, dice)
        try:
            with self._at_work(first, clients, release=False):
                first.operate([Verb.AGAIN, dice.choice(BEFORE_DELETION)], sleep=True)
                first.settle()
                first.judged(clients)
                recreation.empty()
                first.judged(clients)
            first.compare(clients)
            if self.story.wrong:
                return
            recreation.delete()
            second = recreation.create()
            others = second.clients("again")
            with self._at_work(second, others):
                recreation.judge_new(second, others)
                if dice.random() < 0.5:
                    recreation.wake()
                    second.judged(others)
                second.approve()
                second.operate([Verb.AGAIN], sleep=False, meanwhile=recreation.wake_meanwhile)
                self._woken_late(second, others)
            second.compare(others)
            recreation.judge_old()
        finally:
            first.release()
            first.report_deaths()

    @contextmanager
    def _at_work(self, mirror: Lifetime, clients: Clients, *, release: bool = True) -> Iterator[None]:
        """With clients; whatever breaks is reported, and everything is compared all the same."""
        clients.start()
        try:
            yield
        except Exception as why:  # noqa: BLE001 -- reported: what was written until then is compared all the same
            mirror.scene.violated(f"the storm itself broke while the episode {self.story.phase}: {why!r}")
        finally:
            if release:
                mirror.release()
                mirror.report_deaths()
            clients.stop()
