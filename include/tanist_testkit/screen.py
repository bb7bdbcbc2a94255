"""What a person sees of a long run: steps with their seconds, never silent for long, on a terminal and in a log."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from tanist.ports.clock import Clock

_LOOK_SECONDS: Final = 0.25
_SILENCE_SECONDS: Final = 2.5


class Screen:
    """Lines for what has happened, and one live line (a terminal), or a line every few seconds (elsewhere).

    `detail`: what the step is at; set from any thread.
    """

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._begun = self._printed_at = self._step_begun = clock.monotonic()
        self.detail = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic() - self._begun

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A stage; its last detail and its seconds are shown at its end, if it ends well."""
        self.detail, self._step_begun = title, self._clock.monotonic()
        self._line(f"[bold]{escape(title)}[/bold]")
        with self._console.status(self) if self._console.is_terminal else self._never_silent():
            yield
        done = "done" if self.detail == title else self.detail
        self._line(f"  [green]✓[/green] {escape(done)} [dim]({self._step_seconds:.1f} s)[/dim]")

    @property
    def _step_seconds(self) -> float:
        return self._clock.monotonic() - self._step_begun

    def __rich__(self) -> str:
        """The live line."""
        return f"{self._step_seconds:.0f} s  {escape(self.detail)}"

    @contextmanager
    def _never_silent(self) -> Iterator[None]:
        over = threading.Event()

        def repeat() -> None:
            while not over.wait(_LOOK_SECONDS):
                if self._clock.monotonic() - self._printed_at >= _SILENCE_SECONDS:
                    self._line(f"  … {escape(self.detail)}")

        ticker = threading.Thread(target=repeat, name="ticker", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            over.set()
            ticker.join()

    def say(self, text: str) -> None:
        """What the step is at; the last word of it stands beside its seconds."""
        self.detail = text

    def command(self, text: str) -> None:
        """What a user would type."""
        self._line(f"  [cyan]$ {escape(text)}[/cyan]")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._line(f"  {escape(text)}")

    def event(self, text: str) -> None:
        """Something that hurts."""
        self._line(f"  [yellow]⚡ {escape(text)}[/yellow]")

    def _line(self, markup: str) -> None:
        self._printed_at = self._clock.monotonic()
        self._console.print(f"[dim]{self.elapsed:5.1f} s[/dim] {markup}", highlight=False, soft_wrap=True)
