"""Commands of another distribution: entry points of the group `tanist.commands`, loaded when they are called."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tanist.domain.errors import MissingDependency

GROUP: Final = "tanist.commands"
PACKAGE: Final = "tanist-testkit"
TESTKIT: Final = {
    "sandbox": "Run throw-away Apache Kafka clusters on this machine.",
    "demo": "Mirror a cluster while brokers and workers are killed, compare every record, then fail over.",
}
"""Commands of the testkit with their help texts, so that `tanist --help` does not load them."""


class Commands(TyperGroup):
    """The commands of the product, and those of the testkit by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Commands of the testkit come last, whether it is installed or not."""
        return [*(name for name in super().list_commands(ctx) if name not in TESTKIT), *TESTKIT]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command; one of the testkit that is not loaded has only a name and a help text."""
        if cmd_name in TESTKIT and cmd_name not in self.commands:
            return TyperCommand(cmd_name, help=TESTKIT[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that is called.

        Raises:
            MissingDependency: the command belongs to the testkit, which is not installed.
        """
        if args and args[0] in TESTKIT:
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Load a command of the testkit. Raises MissingDependency."""
        if name not in self.commands:
            self.commands[name] = _loaded(name)


def _loaded(name: str) -> Any:
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        raise MissingDependency(f"`tanist {name}` comes with the package {PACKAGE}: pip install {PACKAGE}")
    command, holder = found.load(), typer.Typer(add_completion=False)
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=name)
    else:
        holder.command(name)(command)
    return typer.main.get_group(holder).commands[name]
