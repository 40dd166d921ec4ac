"""Bodies: from the bytes of a request to the members of one JSON object, or the refusal that is due.

The whole text is checked here: size, content type, UTF-8, JSON syntax, in this order. The values of the members
stay bytes (msgspec.Raw) until someone asks for them, so that a payload is never parsed and comes back as it was.
"""

from __future__ import annotations

import asyncio

import msgspec
import orjson
from aiohttp import web

from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.keys import ARRIVING, COORDINATOR
from eventjobs.api.members import Members, members_in
from eventjobs.api.problems import RETRY_SECONDS, Problem, Refused, retry_later
from eventjobs.domain.limits import BODY_BYTES_MAX, BODY_SECONDS_MAX, JSON_DEPTH_MAX

CONTENT_TYPE = "application/json"
PLAIN = "identity"
"""The content encoding that is none."""

_syntax = msgspec.json.Decoder(msgspec.Raw)


async def members_of(request: web.Request, faults: Faults, *, may_be_absent: bool = False) -> Members:
    """The members of the request's body. Raises Refused with 413, 415, 400 or 422.

    `may_be_absent`: no body at all stands for {}.
    """
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise Refused(too_large())
    if request.headers.get("Content-Encoding", PLAIN) != PLAIN:
        raise Refused(Problem("unsupported_media_type", "the body must be sent without a content encoding"))
    try:
        text = await _text(request)
    except TimeoutError:
        if request.app[COORDINATOR].draining:
            detail = "the coordinator is shutting down and waits for no body; nothing was done"
            raise Refused(retry_later("shutting_down", detail, RETRY_SECONDS)) from None
        detail = f"the body did not arrive within {BODY_SECONDS_MAX:g} seconds"
        raise Refused(Problem("malformed_json", detail, headers={"Connection": "close"})) from None
    except web.RequestPayloadError as error:
        raise Refused(Problem("malformed_json", "the body ends in the middle or is garbled on the way")) from error
    if not text and may_be_absent:
        return Members({}, faults)
    if request.content_type != CONTENT_TYPE:
        raise Refused(Problem("unsupported_media_type", f"the body must be sent as {CONTENT_TYPE}"))
    return parse(text, faults)


async def _text(request: web.Request) -> bytes:
    """The body's bytes. Raises TimeoutError when they do not come: nobody may hold a connection open with a part, nor a
    coordinator that is to stop."""
    if request.content.is_eof():
        return await request.read()
    arriving = request.app[ARRIVING]
    async with asyncio.timeout(BODY_SECONDS_MAX) as patience:
        arriving.add(patience)
        try:
            return await request.read()
        finally:
            arriving.discard(patience)


async def wait_for_no_body(app: web.Application) -> None:
    """End the requests whose bodies are still arriving. For the application's shutdown, which is too late to linger."""
    for patience in app[ARRIVING]:
        patience.reschedule(asyncio.get_running_loop().time())


def too_large() -> Problem:
    """The problem of a body above the limit."""
    return Problem("too_large", f"a body has at most {BODY_BYTES_MAX} bytes")


def parse(text: bytes, faults: Faults) -> Members:
    """The members of the object the text is. Raises Refused with 400 or 422."""
    if not text:
        raise Refused(Problem("malformed_json", "the body is empty"))
    try:
        if not text.isascii():
            text.decode()
        return _members(text, faults)
    except UnicodeDecodeError as error:
        raise Refused(Problem("malformed_json", f"the body is not UTF-8: {error.reason}, byte {error.start}")) from None
    except RecursionError:
        faults.add("", f"is nested deeper than {JSON_DEPTH_MAX} levels")
    except msgspec.ValidationError:
        faults.add("", "must be a JSON object")
    except Unfit as unfit:
        faults.add("", str(unfit))
    except msgspec.DecodeError as error:
        raise Refused(Problem("malformed_json", f"the body is not JSON: {_reason(text, error)}")) from None
    raise faults.refusal()


def _members(text: bytes, faults: Faults) -> Members:
    try:
        return members_in(text, faults)
    except msgspec.ValidationError:
        _syntax.decode(text)  # a fault in the syntax goes before a wrong type, wherever it is
        raise


def _reason(text: bytes, error: msgspec.DecodeError) -> str:
    """What is wrong with the syntax, and where. msgspec calls a lone surrogate a truncated text, orjson names it."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as clearer:
        return str(clearer)
    return str(error)
