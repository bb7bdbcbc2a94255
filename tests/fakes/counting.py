"""Ports that count what is asked of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.ports.cluster import Cluster

PORTS: Final = ("topics", "configs", "logs", "replicas", "access", "acls", "fencing", "producer_fencing", "opening")
_ASKS_NOBODY: Final = frozenset({"principal"})
_TOLD_THE_AUTHORIZER: Final = frozenset({"fencing.snapshot", "opening.is_open", "opening.shut_out"})
"""These ask for the authorizer themselves where they are not told of it."""


@dataclass
class Questions:
    """`calls`: of each method, by cluster. `items`: how often a method was asked about each topic or partition.

    The first argument of a method is what it is asked about; one that has a deadline alone is about the cluster.
    """

    calls: Counter[str] = field(default_factory=Counter)
    items: Counter[tuple[str, Any]] = field(default_factory=Counter)

    def of(self, cluster: Cluster) -> Cluster:
        """The same cluster, counted."""
        counted: dict[str, Any] = {name: _Counted(self, cluster.name, name, getattr(cluster, name)) for name in PORTS}

        def open_store(topic: str, *rest: Any, **named: Any) -> Any:
            self.ask(f"{cluster.name} {topic}.open")
            return _Store(self, f"{cluster.name} {topic}", cluster.open_store(topic, *rest, **named))

        return replace(cluster, open_store=open_store, **counted)

    def ask(self, method: str, *about: Any) -> None:
        """One call more."""
        self.calls[method] += 1
        self.items.update((method, item) for item in about or ("",))

    def repeated(self) -> Mapping[tuple[str, Any], int]:
        """What was asked more than once."""
        return {what: count for what, count in self.items.items() if count > 1}


class _Counted:
    """Any port."""

    def __init__(self, questions: Questions, cluster: str, name: str, port: Any) -> None:
        self._questions, self._cluster, self._name, self._port = questions, cluster, name, port

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        label = f"{self._name}.{method}"

        def call(*args: Any, **named: Any) -> Any:
            if method not in _ASKS_NOBODY:
                self._questions.ask(f"{self._cluster} {label}", *(args[0] if len(args) > 1 else ()))
            if label in _TOLD_THE_AUTHORIZER and named.get("authorizer") is None:
                self._questions.ask(f"{self._cluster} fencing.has_authorizer")
            return found(*args, **named)

        return call


class _Store:
    """A reader of a state topic."""

    def __init__(self, questions: Questions, name: str, store: Any) -> None:
        self._questions, self._name, self._store = questions, name, store

    def catch_up(self, *args: Any) -> Any:
        """Read to the end."""
        self._questions.ask(f"{self._name}.catch_up")
        return self._store.catch_up(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
