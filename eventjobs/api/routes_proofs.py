"""GET /log/head and /log/proof: what the log is at this moment, and what shows that it was never anything else."""

from __future__ import annotations

from aiohttp import web

from eventjobs.api.answers import CONTENT_TYPE, answer
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR, NOTES
from eventjobs.api.query import Query
from eventjobs.api.render import Document
from eventjobs.api.render_events import head_document
from eventjobs.api.render_proofs import consistency_document, inclusion_document
from eventjobs.api.values import POSITION
from eventjobs.api.view import View


async def get_head(request: web.Request) -> web.Response:
    """The head as a checkpoint to keep elsewhere; with `Accept: application/json` in its parts as well."""
    faults = Faults()
    Query(request, faults).end()
    faults.refuse_if_any()
    notes = request.app[NOTES]
    head = await request.app[COORDINATOR].look(lambda view: view.head())
    note = notes.note(head)
    if CONTENT_TYPE in request.headers.get("Accept", ""):
        return answer({**head_document(head), "origin": notes.origin, "note": note})
    return web.Response(text=note)


async def get_proof(request: web.Request) -> web.Response:
    """That a record is in the log (`position`), or that the log begins with an earlier one (`from`)."""
    faults = Faults()
    query = Query(request, faults)
    position, old_size, size = (query.read(name, POSITION) for name in ("position", "from", "size"))
    query.end()
    faults.refuse_if_any()
    return answer(await request.app[COORDINATOR].look(lambda view: _proof(view, position, old_size, size, faults)))


def _proof(view: View, position: int | None, old_size: int | None, size: int | None, faults: Faults) -> Document:
    """The proof asked for. Raises Refused when there is none."""
    whole = view.head().size
    size = whole if size is None else size
    if position is None and old_size is None:
        faults.add("position", "must be given, or else from")
    if position is not None and old_size is not None:
        faults.add("from", "must not be given together with position")
    if size > whole:
        faults.add("size", f"must be at most {whole}, the number of records there are")
    elif position is not None and not 1 <= position <= size:
        faults.add("position", f"must be one of the first {size}")
    elif old_size is not None and old_size > size:
        faults.add("from", f"must be at most {size}")
    faults.refuse_if_any()
    return inclusion_document(view, position, size) if old_size is None else consistency_document(view, old_size, size)
