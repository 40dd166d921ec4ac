"""A past for a store: many jobs of every sort, brought to every state by every event.

For tests of whatever reads a log. Times, ids and salts are fixed: the same past is the same log, byte for byte.
"""

from __future__ import annotations

from eventjobs.domain.job import Job
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

JOBS = 200


def live(driver: Driver, jobs: int = JOBS, subject: str = "hello") -> None:
    """Many jobs of every sort: enqueued, leased in batches, and brought to every state by every event."""
    for number in range(1, jobs + 1):
        driver.execute(
            b.enqueue(
                b.an_id(number),
                kind=f"kind-{number % 3}",
                queue=f"queue-{number % 2}",
                priority=number % 5,
                max_attempts=1 + number % 3,
                idempotency_key=f"key-{number}" if number % 4 == 0 else None,
                delay=b.seconds(2_000) if number % 10 == 9 else None,
                payload=None if number % 7 == 0 else b.content(f'{{"{subject}": {number}}}', number),
                now=b.at(number * 0.01),
            )
        )
    for turn in range(4):
        now = b.at(100 * (turn + 1))
        for batch in range(6):
            leased = driver.lease(b.lease(now=now, request_id=f"request-{turn}-{batch}"), limit=25)
            for place, job in enumerate(leased):
                end(driver, job, place + turn, now + b.seconds(1))
            now += b.seconds(2)
        driver.expire(now + b.seconds(60))
        dead = [job for number in range(1, jobs + 1) if (job := find(driver, number)).state == "dead"]
        driver.execute(*[b.requeue(job.id, now=now + b.seconds(61)) for job in dead[::3]])
    driver.lease(b.lease(now=now + b.seconds(62)), limit=3)


def retain(driver: Driver, jobs: int = JOBS) -> None:
    """After `live`: some of the finished jobs lose their contents, their keys, or leave the live store."""
    now = b.at(10_000)
    finished = [job for number in range(1, jobs + 1) if (job := find(driver, number)).finished_at is not None]
    keyed = [job for job in finished if job.spec.idempotency_key is not None]
    driver.execute(*[b.erase(job.id, reason="asked for", now=now) for job in finished[2::5]])
    driver.execute(*[b.retire(job.id, now=now) for job in [*finished[3::5], *keyed[:2]]])
    driver.execute(*[b.forget_key(job.id, now=now) for job in keyed[1:4]])


def end(driver: Driver, job: Job, choice: int, now: int) -> None:
    """One of the things that can happen to a leased job."""
    token = job.lease_token
    driver.execute(
        *[
            [b.complete(job.id, token=token, result=b.content(f'"done {job.id}"', token), now=now)],
            [b.fail(job.id, token=token, error=b.content('{"type": "E", "message": "m"}', token), now=now)],
            [b.renew(job.id, token=token, now=now), b.complete(job.id, token=token, result=None, now=now)],
            [b.release(job.id, token=token, now=now)],
            [b.fail(job.id, token=token, retry=False, now=now)],
            [],
            [b.cancel(job.id, reason="no", now=now)],
        ][choice % 7]
    )


def find(driver: Driver, number: int) -> Job:
    """The job that `live` put in with this number."""
    with driver.engine.read() as reader:
        return reader.job(b.an_id(number))
