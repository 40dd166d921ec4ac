"""The HTTP application: which path leads where, and how every refusal is told."""

from __future__ import annotations

import structlog
from aiohttp import web

from eventjobs.api import routes_jobs, routes_service
from eventjobs.api.body import too_large, wait_for_no_body
from eventjobs.api.edge import Edge, client_has_gone
from eventjobs.api.intake_request import reader_of
from eventjobs.api.keys import ARRIVING, COORDINATOR, EDGE, NOTES
from eventjobs.api.problems import RETRY_SECONDS, Problem, Refused, retry_later
from eventjobs.api.render_proofs import Notes, PlainNotes
from eventjobs.api.routes_backup import get_backup
from eventjobs.api.routes_dead import requeue_dead
from eventjobs.api.routes_enqueue import enqueue, enqueue_batch
from eventjobs.api.routes_erase import erase_many
from eventjobs.api.routes_lease import lease
from eventjobs.api.routes_log import get_events
from eventjobs.api.routes_proofs import get_head, get_proof
from eventjobs.api.routes_settle import Handler, operate_one, settle_many, settle_one
from eventjobs.api.routes_why import get_why
from eventjobs.api.settle_request import (
    read_cancel,
    read_complete,
    read_erase,
    read_fail,
    read_release,
    read_renew,
    read_requeue,
)
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.domain.limits import BODY_BYTES_MAX, IDLE_SECONDS_MAX

log = structlog.get_logger("eventjobs.api")

ROUTES: tuple[web.RouteDef, ...] = (
    web.get("/jobs", routes_jobs.list_jobs),
    web.post("/jobs", enqueue),
    web.post("/jobs/batch", enqueue_batch),
    web.post("/lease", lease),
    web.post("/renew", settle_many(read_renew)),
    web.post("/complete", settle_many(read_complete)),
    web.post("/fail", settle_many(read_fail)),
    web.get("/jobs/{id:(?!batch$)[^/]+}", routes_jobs.get_job),
    web.get("/jobs/{id}/events", routes_jobs.get_history),
    web.get("/jobs/{id}/why", get_why),
    web.post("/jobs/{id}/renew", settle_one(read_renew)),
    web.post("/jobs/{id}/complete", settle_one(read_complete)),
    web.post("/jobs/{id}/fail", settle_one(read_fail)),
    web.post("/jobs/{id}/release", settle_one(read_release)),
    web.post("/jobs/{id}/cancel", operate_one(read_cancel)),
    web.post("/jobs/{id}/erase", operate_one(read_erase)),
    web.post("/jobs/{id}/requeue", operate_one(read_requeue)),
    web.get("/dead", routes_jobs.list_dead),
    web.post("/dead/requeue", requeue_dead),
    web.post("/erase", erase_many),
    web.get("/events", get_events),
    web.get("/log/head", get_head),
    web.get("/log/proof", get_proof),
    web.get("/backup", get_backup),
    web.get("/stats", routes_service.get_stats),
    web.get("/metrics", routes_service.get_metrics),
    web.get("/healthz", routes_service.get_health),
    web.get("/readyz", routes_service.get_readiness),
    web.get("/openapi.json", routes_service.get_contract),
)


RUNNER_OPTIONS = {"access_log": None, "auto_decompress": False, "keepalive_timeout": IDLE_SECONDS_MAX}
"""What `web.AppRunner` is to be told for this application: requests are not logged one by one; encoded bodies, which
are refused, are not unpacked first; and a connection on which no head of a request comes to its end is closed."""


def build_app(coordinator: Coordinator, edge: Edge | None = None, notes: Notes | None = None) -> web.Application:
    """The application over a running coordinator, which stays its caller's to stop.

    `edge` is where ids, chance and salts come from; by default the system's, with the coordinator's clock. `notes`
    makes the texts of the log's head; by default without a signature.
    """
    app = web.Application(middlewares=[tell_refusals], client_max_size=BODY_BYTES_MAX)
    app[COORDINATOR] = coordinator
    app[EDGE] = edge or Edge(coordinator.clock.now)
    coordinator.take_in(reader_of(app[EDGE]))
    app[NOTES] = notes or PlainNotes()
    app[ARRIVING] = set()
    app.on_shutdown.append(wait_for_no_body)
    app.add_routes(ROUTES)
    return app


@web.middleware
async def tell_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every refusal as a problem; what nobody foresaw is logged, and told without its details."""
    try:
        return await handler(request)
    except Refused as refused:
        return refused.problem.response()
    except Unavailable as unavailable:
        return _unavailable(unavailable).response()
    except UnknownOutcome:
        detail = "the store failed and whether this took effect is unknown; ask again later, repeating is safe"
        return retry_later("shutting_down", detail, RETRY_SECONDS).response()
    except web.HTTPException as error:
        return _http_error(request, error).response()
    except Exception as error:
        if isinstance(error, ConnectionError) and client_has_gone(request):
            return web.Response()  # which nobody gets
        log.exception("request_failed", method=request.method, path=request.path)
        return Problem("internal", "the coordinator failed to handle this request").response()


def _unavailable(unavailable: Unavailable) -> Problem:
    if unavailable.code == "storage_full":
        return Problem(unavailable.code, str(unavailable))
    return retry_later(unavailable.code, str(unavailable), unavailable.retry_after_seconds)


def _http_error(request: web.Request, error: web.HTTPException) -> Problem:
    """What aiohttp itself refuses. Raises the error again when it is none of ours to tell."""
    match error:
        case web.HTTPMethodNotAllowed():
            allowed = ",".join(sorted(error.allowed_methods))
            detail = f"{request.method} is not allowed here; allowed: {allowed}"
            return Problem("method_not_allowed", detail, headers={"Allow": allowed})
        case web.HTTPNotFound():
            return Problem("not_found", f"there is nothing at {request.path}")
        case web.HTTPRequestEntityTooLarge():
            return too_large()
    raise error
