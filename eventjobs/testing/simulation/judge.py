"""The judge: sees every commit, every request and every answer, and says which promise was broken."""

from __future__ import annotations

from collections.abc import Callable

from eventjobs.domain.events import Record
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.simulation.conduct import Conduct
from eventjobs.testing.simulation.ledger import Ledger
from eventjobs.testing.simulation.logbook import Logbook, difference
from eventjobs.testing.simulation.messages import Message, message
from eventjobs.testing.simulation.network import Answer, Delivery, Exchange
from eventjobs.testing.simulation.verdict import Verdict


class Judge:
    """The network's witness and the disk's. Parts: `logbook`, `ledger`, `conduct`."""

    def __init__(self, verdict: Verdict, now: Callable[[], float]) -> None:
        self._verdict = verdict
        self.logbook = Logbook(verdict)
        self.ledger = Ledger(verdict, self.logbook)
        self.conduct = Conduct(verdict, now)

    def committed(self, store: MemoryEngine, records: list[Record]) -> None:
        """A commit is on disk."""
        with store.read() as reader:
            self.logbook.committed(records, reader)

    def request_leaves(self, exchange: Exchange) -> str:
        request = _of(exchange)
        self.conduct.sends(exchange.client, request)
        return str(request)

    def request_arrives(self, delivery: Delivery) -> None:
        self.ledger.arrives(_of(delivery.exchange))

    def answer_leaves(self, delivery: Delivery, answer: Answer) -> None:
        self.ledger.leaves(_of(delivery.exchange), delivery.actor, answer.status, answer.body)

    def answer_is_read(self, exchange: Exchange, answer: Answer) -> None:
        self.conduct.hears(exchange.client, _of(exchange), answer.status, answer.body)

    def close(self, store: MemoryEngine) -> None:
        """At the end: the accounts balance, and the whole store is the fold of its log."""
        self.ledger.balance()
        if (differs := difference(store)) is not None:
            self._verdict.breach(differs)


def _of(exchange: Exchange) -> Message:
    return message(exchange.method, exchange.target, exchange.body)
