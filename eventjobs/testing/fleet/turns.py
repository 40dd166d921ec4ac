"""What one turn at appending costs on a PostgreSQL: the seconds a transaction of so many records holds the append lock.

    python -m eventjobs.testing.with_postgres python -m eventjobs.testing.fleet.turns {}

The engine and the handler are the coordinator's own, in one process. A turn goes from the answer to the round trip
that takes the lock to the answer to the one that commits; what goes before is done beside the turns of others. Figures
are medians; `fixed` and `each` are the least-squares line through them. The simulation is given these two.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from uuid_utils import uuid7

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import LeaseNeed, Needs
from eventjobs.store.postgres.engine import PostgresEngine, open_engine
from eventjobs.testing.builders import WORKER, complete, enqueue, lease

RECORDS = (1, 10, 100, 400)
ROUNDS = 15


def main(url: str) -> None:
    """Measure on an empty database, and print a line for each size of a turn and one for the fit."""
    engine = open_engine(url, READ_MODELS)
    engine.maintain()
    found = {records: _turns(engine, records) for records in RECORDS}
    engine.close()
    for records, turns in found.items():
        before, held = (statistics.median(spent) * 1_000 for spent in zip(*turns, strict=True))
        _say(f"{records:5} records: {before:7.2f} ms before the turn, {held:7.2f} ms in it")
    points = [(records, statistics.median(held for _, held in turns)) for records, turns in found.items()]
    each, fixed = statistics.linear_regression(*zip(*points, strict=True))
    _say(f"fixed {fixed * 1_000:.2f} ms, each {each * 1_000:.3f} ms")


def _turns(engine: PostgresEngine, records: int) -> list[tuple[float, float]]:
    """Seconds before the lock and under it, of turns that enqueue, lease and complete so many jobs."""
    turns: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        ids = [str(uuid7()) for _ in range(records)]
        jobs = [enqueue(job_id) for job_id in ids]
        _turn(engine, turns, Needs(jobs=tuple(ids)), lambda handler, jobs=jobs: handler.enqueue(jobs))
        wanted = LeaseNeed(None, None, records, WORKER, None)
        asked = lease(worker=WORKER)
        leased = _turn(
            engine,
            turns,
            Needs(leases=(wanted,)),
            lambda handler, asked=asked: handler.lease(asked, None, None, records),
        ).jobs
        if len(leased) != records:
            raise SystemExit(f"round {number}: {len(leased)} jobs were leased, not {records}: is the database empty?")
        reports = [complete(job.id, token=job.lease_token) for job in leased]
        _turn(
            engine,
            turns,
            Needs(jobs=tuple(job.id for job in leased)),
            lambda handler, reports=reports: handler.execute(reports),
        )
    return turns


def _turn(
    engine: PostgresEngine, turns: list[tuple[float, float]], needs: Needs, work: Callable[[Handler], object]
) -> object:
    began = time.perf_counter()
    transaction = engine.begin(needs)
    taken = time.perf_counter()
    answer = work(Handler(transaction, Effects()))
    engine.commit()
    turns.append((taken - began, time.perf_counter() - taken))
    return answer


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
