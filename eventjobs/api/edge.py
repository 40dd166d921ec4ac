"""The edge: where everything a decision needs and cannot derive comes from. Time, ids, chance, salts, and who asks."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import uuid_utils
from aiohttp import web
from attrs import field, frozen

from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.values import printable_ascii
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.content import SALT_BYTES
from eventjobs.domain.limits import ACTOR_LENGTH_MAX

ACTOR_HEADER = "Eventjobs-Actor"
NO_ADDRESS = "local"
"""The actor's id on a connection that has no peer address, such as a Unix socket."""

SALTS_IN_STOCK = 1_024

_actor_id = printable_ascii(ACTOR_LENGTH_MAX)


class Salts:
    """Salts for contents, from a stock: each draw from the system lets other threads in and waits for its turn again.

    `random_bytes` gives that many bytes nobody can guess.
    """

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._stock = b""
        self._used = 0

    def draw(self) -> bytes:
        """A salt that was never given out before."""
        if self._used == len(self._stock):
            self._stock = self._random_bytes(SALTS_IN_STOCK * SALT_BYTES)
            self._used = 0
        start = self._used
        self._used += SALT_BYTES
        return self._stock[start : self._used]


@frozen
class Edge:
    """`now` gives microseconds since 1970 UTC, `new_id` a UUIDv7 as text, `roll` a draw from [0, 1), `salt` a salt."""

    now: Callable[[], int]
    new_id: Callable[[], str] = lambda: str(uuid_utils.uuid7())
    roll: Callable[[], float] = random.random
    salt: Callable[[], bytes] = field(factory=lambda: Salts().draw)


def actor_of(request: web.Request, actor_type: ActorType, faults: Faults) -> Actor:
    """Who asks, as the header says, or else the address the request came from."""
    sent = request.headers.get(ACTOR_HEADER)
    if sent is None:
        return Actor(actor_type, request.remote or NO_ADDRESS)
    return read_actor(ACTOR_HEADER, sent, actor_type, faults)


def read_actor(path: str, name: str, actor_type: ActorType, faults: Faults) -> Actor:
    """Who asks, by the name that was given; after a fault any."""
    try:
        return Actor(actor_type, _actor_id(name))
    except Unfit as unfit:
        faults.add(path, str(unfit))
        return Actor(actor_type, NO_ADDRESS)


def client_has_gone(request: web.Request) -> bool:
    """Whether nobody waits for the answer any more."""
    return request.transport is None or request.transport.is_closing()
