"""The network between clients and the coordinator: messages take their time, get lost, arrive twice or out of order.

An exchange is one request on a connection of its own, and the answer to it. The network belongs to no program: what is
under way arrives even if its sender was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol

import aiohttp
from attrs import define, frozen
from multidict import CIMultiDict

from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.messages import message
from eventjobs.testing.simulation.plan import Weather
from eventjobs.testing.simulation.programs import Program, ProgramLoop

MESSAGES_MAX = 100_000
"""More than this in one run means that somebody asks again and again without a pause."""
OLD_CONNECTION = 0.5
"""How often a request into a network that is cut off goes into a connection that was open before."""


@frozen
class Answer:
    """What the coordinator answered; reads like aiohttp's ClientResponse."""

    status: int
    content_type: str
    headers: CIMultiDict
    body: bytes

    async def read(self) -> bytes:
        return self.body

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is no connection to give back."""


@define(eq=False)
class Exchange:
    """A request of a client. `connected` turns true when the client knows that somebody is there."""

    number: int
    client: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    answer: asyncio.Future[Answer]
    connected: bool = True
    closed: bool = False

    @property
    def open(self) -> bool:
        """Whether the client still waits."""
        return not self.closed and not self.answer.done()


@define(eq=False)
class Delivery:
    """A request as it arrived, perhaps not for the first time.

    `read_at` is when the coordinator began to read it, `hung_up_at` when it was told that nobody waits any more, in
    seconds of the loop's time.
    """

    exchange: Exchange
    copy: int
    read_at: float | None = None
    hung_up_at: float | None = None

    @property
    def actor(self) -> str:
        """The name under which this arrival is in the log, where a request has an actor's name at all."""
        return f"{self.exchange.client}#{self.exchange.number}.{self.copy}"

    def __str__(self) -> str:
        return f"#{self.exchange.number}" + ("" if self.copy == 1 else f" (copy {self.copy})")


class Listener(Protocol):
    """Who answers."""

    def accept(self, delivery: Delivery) -> bool:
        """Take a request that arrived; False when there is nobody to take it."""


class Witness(Protocol):
    """Who sees what leaves and what arrives."""

    def request_leaves(self, exchange: Exchange) -> str:
        """A client sends a request; how to call it in the journal."""

    def request_arrives(self, delivery: Delivery) -> None:
        """The coordinator is given a request."""

    def answer_leaves(self, delivery: Delivery, answer: Answer) -> None:
        """The coordinator has answered."""

    def answer_is_read(self, exchange: Exchange, answer: Answer) -> None:
        """A client reads an answer."""


class Network:
    """Carries messages. `weather` is what it does to each; clients named in `cut_off` reach nobody."""

    def __init__(self, loop: ProgramLoop, rng: Random, journal: Journal, witness: Witness, listener: Listener) -> None:
        self._loop, self._rng, self._journal = loop, rng, journal
        self._witness, self._listener = witness, listener
        self._sent = 0
        self._lost_grants: set[str] = set()
        self._deliveries: dict[Exchange, list[Delivery]] = {}
        self.weather = Weather()
        self.cut_off: set[str] = set()

    # Clients

    def send(self, exchange: Exchange) -> None:
        """Put a request on its way."""
        what = self._witness.request_leaves(exchange)
        self._journal.note(exchange.client, f"→ #{exchange.number} {what}")
        weather, draw = self.weather, self._rng.random
        if exchange.client in self.cut_off:
            exchange.connected = draw() < OLD_CONNECTION
        elif draw() < weather.lost_requests:
            self._lose(exchange, "request")
        else:
            self._loop.after(self._delay(), self._arrive, Delivery(exchange, 1))
            if draw() < weather.doubled:
                self._loop.after(self._delay() + self._delay(), self._arrive, Delivery(exchange, 2))

    def next_number(self) -> int:
        """A number for an exchange."""
        self._sent += 1
        if self._sent > MESSAGES_MAX:
            raise RuntimeError(f"more than {MESSAGES_MAX} requests were sent")
        return self._sent

    def hang_up(self, exchange: Exchange) -> None:
        """The client waits no longer; the coordinator learns it, unless they are cut off from each other."""
        if not exchange.closed:
            exchange.closed = True
            self._loop.after(self.weather.delay_seconds, self._hung_up, exchange)

    def _hung_up(self, exchange: Exchange) -> None:
        if exchange.client not in self.cut_off:
            for delivery in self._deliveries.get(exchange, ()):
                delivery.hung_up_at = self._loop.time()

    def read(self, exchange: Exchange, answer: Answer) -> Answer:
        """The client takes the answer."""
        self._witness.answer_is_read(exchange, answer)
        return answer

    # The coordinator

    def _arrive(self, delivery: Delivery) -> None:
        exchange = delivery.exchange
        if exchange.client in self.cut_off:
            return
        if not self._listener.accept(delivery):
            self._break(exchange, ConnectionRefusedError("the simulated coordinator is down"))
            return
        self._deliveries.setdefault(exchange, []).append(delivery)
        if exchange.closed:
            delivery.hung_up_at = self._loop.time()

    def arrived(self, delivery: Delivery) -> None:
        """The coordinator begins to read a request."""
        delivery.read_at = self._loop.time()
        self._journal.note("coordinator", f"reads {delivery}", None if delivery.copy == 1 else "doubled request")
        self._witness.request_arrives(delivery)

    def answer(self, delivery: Delivery, answer: Answer) -> None:
        """Put an answer on its way."""
        exchange = delivery.exchange
        self._journal.note("coordinator", f"← {delivery} {answer.status}", f"answer: {answer.status}")
        self._witness.answer_leaves(delivery, answer)
        self._forget(delivery)
        if exchange.client in self.cut_off:
            return
        if self._rng.random() < self.weather.lost_answers or self._loses_grant(exchange):
            self._lose(exchange, "answer")
        else:
            self._loop.after(self._delay(), self._reply, exchange, answer)

    def _loses_grant(self, exchange: Exchange) -> bool:
        """Whether this is an answer to a lease request and is lost, as none under the request's id was before."""
        request = message(exchange.method, exchange.target, exchange.body)
        if request.verb != "lease" or request.body["request_id"] in self._lost_grants:
            return False
        loses = self._rng.random() < self.weather.lost_grants
        if loses:
            self._lost_grants.add(request.body["request_id"])
        return loses

    def break_off(self, delivery: Delivery) -> None:
        """The coordinator is gone; its end of the connection is closed."""
        self._forget(delivery)
        self._break(delivery.exchange, aiohttp.ServerDisconnectedError())

    def _forget(self, delivery: Delivery) -> None:
        deliveries = self._deliveries[delivery.exchange]
        deliveries.remove(delivery)
        if not deliveries:
            del self._deliveries[delivery.exchange]

    # Messages

    def _delay(self) -> float:
        weather = self.weather
        if self._rng.random() < weather.slow:
            return self._rng.uniform(weather.delay_seconds, weather.slow_seconds)
        return self._rng.expovariate(1 / weather.delay_seconds)

    def _lose(self, exchange: Exchange, what: str) -> None:
        silently = self._rng.random() < self.weather.silent
        how = " silently" if silently else ""
        self._journal.note("network", f"loses the {what} of #{exchange.number}{how}", f"lost {what}{how}")
        if not silently:
            self._break(exchange, aiohttp.ServerDisconnectedError())

    def _break(self, exchange: Exchange, error: Exception) -> None:
        if exchange.client not in self.cut_off:
            self._loop.after(self._delay(), self._fail, exchange, error)

    def _reply(self, exchange: Exchange, answer: Answer) -> None:
        if exchange.open and exchange.client not in self.cut_off:
            exchange.answer.set_result(answer)

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        if exchange.open and exchange.client not in self.cut_off:
            exchange.answer.set_exception(error)


class Connections:
    """A client's connections; stands in for aiohttp's ClientSession."""

    def __init__(self, network: Network, program: Program, *, headers: dict[str, str]) -> None:
        self._network, self._program, self._headers = network, program, headers
        self._open: dict[Exchange, None] = {}
        program.on_kill.append(self._killed)

    async def request(
        self,
        method: str,
        url: object,
        *,
        data: bytes | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
        allow_redirects: bool,
    ) -> Answer:
        """One exchange. Fails as aiohttp does."""
        future = asyncio.get_running_loop().create_future()
        number = self._network.next_number()
        exchange = Exchange(
            number, self._program.name, method, str(url.relative()), self._headers | headers, data or b"", future
        )
        self._open[exchange] = None
        self._network.send(exchange)
        patience = timeout.sock_read if exchange.connected else timeout.sock_connect
        try:
            async with asyncio.timeout(patience):
                return self._network.read(exchange, await future)
        except TimeoutError as error:
            raise aiohttp.SocketTimeoutError(f"no answer within {patience:g} s") from error
        finally:
            del self._open[exchange]
            self._network.hang_up(exchange)

    async def close(self) -> None:
        """Nothing is open that is not waited for."""

    def _killed(self) -> None:
        for exchange in self._open:
            self._network.hang_up(exchange)


Connect = Callable[..., Connections]
