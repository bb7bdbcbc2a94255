"""ACLs of a topic that is failed over: the port `Opening`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, AclEntry
from tanist.domain.acls import NO_AUTHORIZER
from tanist.domain.names import TopicPartition
from tanist.kafka.adapters import rules
from tanist.kafka.adapters.access import login_of
from tanist.kafka.adapters.acls import read_acls
from tanist.kafka.wire.rights import may_write
from tanist.kafka.wire.transactions import empty_transaction
from tanist.ports.access import NOBODY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.acls import Acls
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class KafkaOpening:
    """Owned by one thread. A login without a principal cannot be denied anything."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def has_authorizer(self, by: Deadline) -> bool:
        return rules.has_authorizer(self._router, by)

    def open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, TanistError | None]:
        """In this order: deny the mirror, create the ACLs, remove what `close` has denied, and a DENY for everybody."""
        acls = read_acls(self._router, by)
        if not acls.authorizer:
            return dict.fromkeys(topics)
        done: dict[str, TanistError | None] = dict.fromkeys(topics)
        ruled = _ruled(topics, acls)
        for principal in sorted(self._logins(mirrors)):
            done |= rules.deny(self._router, [topic for topic in _without_error(done) if topic in ruled], principal, by)
        lacking = self._lacking({t: topics[t] for t in _without_error(done)}, mirrors, acls)
        done |= rules.give(self._router, lacking, by)
        done = self._undeny(done, _not_given(denied, topics), by)
        return done | rules.allow_again(self._router, _without_error(done), ANYBODY, by)

    def _undeny(
        self, done: Mapping[str, TanistError | None], denied: Mapping[str, Collection[str]], by: Deadline
    ) -> dict[str, TanistError | None]:
        found = dict(done)
        for principal, held in _by_principal(denied):
            shut = [topic for topic in _without_error(found) if topic in held]
            found |= rules.allow_again(self._router, shut, principal, by)
        return found

    def deny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        done: dict[str, TanistError | None] = dict.fromkeys(topics)
        if not self.has_authorizer(by):
            return done
        for principal, held in _by_principal(topics):
            done |= rules.deny(self._router, [topic for topic in _without_error(done) if topic in held], principal, by)
        return done

    def undeny(self, topics: Mapping[str, Collection[str]], by: Deadline) -> Mapping[str, TanistError | None]:
        done: dict[str, TanistError | None] = dict.fromkeys(topics)
        return self._undeny(done, topics, by) if self.has_authorizer(by) else done

    def give(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        return rules.give(self._router, topics, by) if self.has_authorizer(by) else dict.fromkeys(topics)

    def take_back(self, topics: Mapping[str, Sequence[AclEntry]], by: Deadline) -> Mapping[str, TanistError | None]:
        return rules.take_back(self._router, topics, by) if self.has_authorizer(by) else dict.fromkeys(topics)

    def close(
        self, topics: Mapping[str, Collection[str]], by: Deadline, mirrors: Collection[str] = ()
    ) -> Mapping[str, TanistError | None]:
        if not self.has_authorizer(by):
            return dict.fromkeys(topics)
        done = dict(self.deny(topics, by))
        for principal in sorted(self._logins(mirrors)):
            done |= rules.allow_again(self._router, _without_error(done), principal, by)
        return done

    def is_open(
        self,
        topics: Mapping[str, Sequence[AclEntry]],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
        denied: Mapping[str, Collection[str]] = NOBODY,
    ) -> Mapping[str, bool | TanistError]:
        acls = NO_AUTHORIZER if authorizer is False else read_acls(self._router, by)
        if not acls.authorizer:
            return dict.fromkeys(topics, True)
        kept_off = acls.denied(ANYBODY)
        for principal, held in _by_principal(_not_given(denied, topics)):
            kept_off |= acls.denied(principal) & held
        lacking = self._lacking(topics, mirrors, acls)
        return {topic: topic not in kept_off and not lacking[topic] for topic in topics}

    def shut_out(
        self,
        topics: Sequence[str],
        by: Deadline,
        mirrors: Collection[str] = (),
        *,
        authorizer: bool | None = None,
    ) -> Mapping[str, bool | TanistError]:
        logins = self._logins(mirrors)
        others = sorted(logins - {self._own})
        asks = bool(others) and authorizer is not False
        acls = read_acls(self._router, by) if asks else NO_AUTHORIZER
        denied = [acls.denied(other) for other in others] if acls.authorizer else []
        by_name = {topic: len(denied) == len(others) and all(topic in each for each in denied) for topic in topics}
        if self._own not in logins and others:
            return by_name
        reported = may_write(self._router, topics, by)
        return {topic: not may and by_name[topic] if isinstance(may, bool) else may for topic, may in reported.items()}

    def principal(self) -> str | None:
        return self._own

    @property
    def _own(self) -> str | None:
        return login_of(self._router.endpoint).principal

    def _logins(self, mirrors: Collection[str]) -> frozenset[str]:
        """The principals of workers; if none has reported one, that of this connection."""
        return frozenset(mirrors) or frozenset({self._own} if self._own else ())

    def _lacking(
        self, wanted: Mapping[str, Sequence[AclEntry]], mirrors: Collection[str], acls: Acls
    ) -> dict[str, list[AclEntry]]:
        """The ACLs that do not exist in any form, without those of the mirror's principals."""
        found, ours = acls.writing(wanted), self._logins(mirrors)
        return {
            topic: [rule for rule in held if rule not in found[topic] and rule.principal not in ours]
            for topic, held in wanted.items()
        }

    def canary(self, mirror: MirrorName, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """One marker on partition 0 of each topic."""
        name = f"tanist-{mirror}/canary"
        answers = empty_transaction(self._router, name, [TopicPartition(topic, 0) for topic in topics], by)
        return {at.topic: answer for at, answer in answers.items()}


def _ruled(topics: Mapping[str, Sequence[AclEntry]], acls: Acls) -> frozenset[str]:
    """Topics that have ACLs already, so that a DENY may be added.

    On a topic without ACLs everybody may be allowed to write (`allow.everyone.if.no.acl.found`), and the first ACL
    would block all other clients.
    """
    found = acls.covered(topics)
    return frozenset(topic for topic, held in topics.items() if held or topic in found)


def _without_error(answers: Mapping[str, TanistError | None]) -> list[str]:
    return [topic for topic, error in answers.items() if error is None]


def _not_given(denied: Mapping[str, Collection[str]], topics: Mapping[str, Sequence[AclEntry]]) -> dict[str, list[str]]:
    """`denied` without principals that the ACLs given for a topic deny from any host: that DENY is to stay."""
    stay = {
        topic: {each.principal for each in held if each == AclEntry(each.principal, ANY_HOST, allowed=False)}
        for topic, held in topics.items()
    }
    return {topic: [who for who in named if who not in stay.get(topic, ())] for topic, named in denied.items()}


def _by_principal(topics: Mapping[str, Collection[str]]) -> Iterator[tuple[str, frozenset[str]]]:
    """Each principal, with the topics that name it."""
    for principal in sorted({each for named in topics.values() for each in named}):
        yield principal, frozenset(topic for topic, named in topics.items() if principal in named)
