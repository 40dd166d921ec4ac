"""GET /events: a stretch of the log as JSON, or the log as a stream that goes on."""

from __future__ import annotations

import orjson
from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.event_stream import CONTENT_TYPE, EventStream
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.query import Query
from eventjobs.api.render import Document
from eventjobs.api.render_events import event_text, head_document
from eventjobs.api.routes_jobs import LIMIT
from eventjobs.api.values import POSITION
from eventjobs.api.view import View
from eventjobs.domain.limits import LIST_LIMIT_DEFAULT

LAST_ID_HEADER = "Last-Event-ID"


async def get_events(request: web.Request) -> web.StreamResponse:
    """The events after a position and the head of the log; with `Accept: text/event-stream`, all that follow too."""
    faults = Faults()
    query = Query(request, faults)
    after = query.read("after", POSITION, 0)
    limit = query.read("limit", LIMIT)
    query.end()
    if CONTENT_TYPE in request.headers.get("Accept", ""):
        last_seen = _last_seen(request, faults)
        faults.refuse_if_any()
        stream = EventStream(request.app[COORDINATOR], after if last_seen is None else last_seen, limit)
        return await stream.send(request)
    faults.refuse_if_any()
    return answer(await request.app[COORDINATOR].look(lambda view: _stretch(view, after, limit or LIST_LIMIT_DEFAULT)))


def _stretch(view: View, after: int, limit: int) -> Document:
    head = view.head()
    records = view.records(after, limit) if after < head.size else []
    return {"events": [orjson.Fragment(event_text(record)) for record in records], "head": head_document(head)}


def _last_seen(request: web.Request, faults: Faults) -> int | None:
    sent = request.headers.get(LAST_ID_HEADER)
    if sent is None:
        return None
    try:
        return POSITION(sent)
    except Unfit as unfit:
        faults.add(LAST_ID_HEADER, str(unfit))
        return None
