"""Following the log: an event stream that comes back by itself where it broke off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress

from eventjobs.client.answers import Event, decoded
from eventjobs.client.errors import Unreachable
from eventjobs.client.repeating import repeated
from eventjobs.client.settings import Retry
from eventjobs.client.transport import Transport


async def follow(transport: Transport, retry: Retry, after: int) -> AsyncIterator[Event]:
    """Every event with a position greater than `after`, in order, without end.

    A stream that breaks (the coordinator restarts, a gateway loses patience, this reader was too slow) is taken up
    after the last position. Raises what `retry` could not overcome when no new stream can be had.
    """
    while True:
        async with AsyncExitStack() as stack:
            chunks = await repeated(
                lambda after=after, stack=stack: stack.enter_async_context(
                    transport.stream("/events", last_event_id=after)
                ),
                retry,
            )
            messages = Messages()
            with suppress(Unreachable):  # the stream broke: the next one goes on from the last position
                async for chunk in chunks:
                    for data in messages.feed(chunk):
                        event = decoded(data, Event)
                        after = event.position
                        yield event
        await asyncio.sleep(retry.first_wait_seconds)


class Messages:
    """Cuts the bytes of an event stream into messages. Only their data matters: it repeats id and type."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of each message that this chunk ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif not field and not value and self._data:
                data, self._data = b"\n".join(self._data), []
                yield data
