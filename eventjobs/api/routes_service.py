"""The service about itself: numbers, health, and its own contract."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from aiohttp import web

from eventjobs.api import answers
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.metrics import CONTENT_TYPE, IntakeNumbers, StatsCollector, metrics_text
from eventjobs.api.past import past_stats
from eventjobs.api.points import read_point
from eventjobs.api.problems import RETRY_SECONDS, Refused, retry_later
from eventjobs.api.query import Query
from eventjobs.api.render_stats import stats_document
from eventjobs.api.wire_time import seconds
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.projections import stats


async def get_stats(request: web.Request) -> web.Response:
    """The kept counters and the head of the log they stand for, now or at a point of the past."""
    faults = Faults()
    query = Query(request, faults)
    wanted = read_point(query)
    query.end()
    faults.refuse_if_any()
    if wanted is not None:
        return answers.answer(await past_stats(request.app[COORDINATOR], wanted))
    numbers, head = await request.app[COORDINATOR].look(lambda view: (stats.read(view), view.head()))
    return answers.answer(stats_document(numbers, head))


async def get_metrics(request: web.Request) -> web.Response:
    """The same for Prometheus."""
    coordinator = request.app[COORDINATOR]
    numbers, size = await coordinator.look(lambda view: (stats.read(view), view.head().size))
    text = metrics_text(StatsCollector(numbers, size, _intake_numbers(coordinator)))
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


def _intake_numbers(coordinator: Coordinator) -> IntakeNumbers | None:
    intake, since = coordinator.intake, coordinator.asked_at
    if intake is None:
        return None
    wait = 0 if since is None else max(0, coordinator.clock.now() - since)
    return IntakeNumbers(seconds(wait), intake.taken, intake.refused)


async def get_health(request: web.Request) -> web.Response:
    """The process answers."""
    return answers.answer({"status": "ok"})


async def get_readiness(request: web.Request) -> web.Response:
    """Whether requests are welcome: it has started, is not going down, and can write."""
    coordinator = request.app[COORDINATOR]
    if not coordinator.ready:
        # a store without room makes a coordinator that lives, and is ready again when there is room
        code = "shutting_down" if coordinator.draining else "overloaded"
        raise Refused(retry_later(code, "the coordinator takes no requests now", RETRY_SECONDS))
    return answers.answer({"status": "ready"})


async def get_contract(request: web.Request) -> web.Response:
    """The API described as OpenAPI."""
    return web.Response(body=contract_text(), content_type=answers.CONTENT_TYPE)


@cache
def contract_text() -> bytes:
    """The OpenAPI document that is installed with the package."""
    return files("eventjobs.api").joinpath("openapi.json").read_bytes()
