"""The edge: where everything a decision needs and cannot derive comes from. Time, ids, chance, salts, and who asks."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import uuid_utils
from aiohttp import web
from attrs import frozen

from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.values import printable_ascii
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.content import SALT_BYTES
from eventjobs.domain.limits import ACTOR_LENGTH_MAX

ACTOR_HEADER = "Eventjobs-Actor"
NO_ADDRESS = "local"
"""The actor's id on a connection that has no peer address, such as a Unix socket."""

_actor_id = printable_ascii(ACTOR_LENGTH_MAX)


@frozen
class Edge:
    """`now` gives microseconds since 1970 UTC, `new_id` a UUIDv7 as text, `roll` a draw from [0, 1)."""

    now: Callable[[], int]
    new_id: Callable[[], str] = lambda: str(uuid_utils.uuid7())
    roll: Callable[[], float] = random.random
    random_bytes: Callable[[int], bytes] = os.urandom

    def salts(self, count: int) -> Iterator[bytes]:
        """A salt for each of `count` contents, drawn at once."""
        drawn = self.random_bytes(count * SALT_BYTES)
        return (drawn[start : start + SALT_BYTES] for start in range(0, len(drawn), SALT_BYTES))


def actor_of(request: web.Request, actor_type: ActorType, faults: Faults) -> Actor:
    """Who asks, as the header says, or else the address the request came from."""
    sent = request.headers.get(ACTOR_HEADER)
    if sent is None:
        return Actor(actor_type, request.remote or NO_ADDRESS)
    try:
        return Actor(actor_type, _actor_id(sent))
    except Unfit as unfit:
        faults.add(ACTOR_HEADER, str(unfit))
        return Actor(actor_type, NO_ADDRESS)
