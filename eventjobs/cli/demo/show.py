"""What happens in the demo, act by act. Everything it knows of the jobs, it reads from the coordinator's log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson
from rich.progress import Progress

from eventjobs.cli.demo.audit import audit
from eventjobs.cli.demo.late import Latecomer, complete_late
from eventjobs.cli.demo.ledger import Ledger, Taken
from eventjobs.cli.demo.plan import SLOW_KIND, SLOW_SECONDS, Sort, Task, work
from eventjobs.cli.demo.processes import Cast, Process
from eventjobs.cli.demo.report import Outcome
from eventjobs.cli.remote import Remote
from eventjobs.domain.limits import BATCH_JOBS_MAX, LIST_LIMIT_MAX

LEASE_SECONDS = 2
ONE, TWO = ("coordinator",), ("coordinator-1", "coordinator-2")
WORKERS = ("worker-1", "worker-2", "worker-3")
FREEZE_AT, KILL_AT = 1 / 4, 1 / 2
"""Shares of the jobs that are done by then."""
SURELY_BEGUN, MAYBE_ENDED = 0.2, 0.7
"""Shares of a slow job's time since its lease, between which its handler is at work."""
ACT_SECONDS = 60
"""How long the demo waits for any one thing before it calls it off."""


class Show:
    """One performance: coordinators and workers of the cast, the tasks, and what is told of it on the way.

    With `store`, the URL of a database, there are two coordinators, and the one that the workers ask is killed.
    """

    def __init__(self, cast: Cast, tasks: Sequence[Task], progress: Progress, store: str | None = None) -> None:
        self._cast, self._tasks, self._progress, self._store = cast, tasks, progress, store
        self._coordinators: list[Process] = []
        self._bar = progress.add_task("jobs done", total=len(tasks))
        self._broken = cast.directory / "broken"
        self._ledger = Ledger()
        self._began = time.monotonic()

    def perform(self) -> Outcome:
        """All acts and the audit. Raises Refused when an act cannot be played to its end."""
        urls = [self._start_coordinator(name) for name in (ONE if self._store is None else TWO)]
        self._for_workers = ",".join(urls)
        own_work = ThreadPoolExecutor(1)
        try:
            right = own_work.map(work, [task.path for task in self._tasks])
            with Remote(urls[-1]) as self._remote:
                self._latecomer = Latecomer(self._remote)
                return self._perform(right)
        finally:
            own_work.shutdown(wait=False, cancel_futures=True)

    def _perform(self, right: Iterator[dict[str, Any]]) -> Outcome:
        workers = [self._start_worker(name) for name in WORKERS]
        self._enqueue()
        killed, frozen = workers[0], workers[1]
        self._watch("a quarter of the jobs", lambda: self._share_done() >= FREEZE_AT)
        held_frozen = self._catch(frozen)
        self._tell(f"froze {frozen.name} (SIGSTOP) while it works on {_slow(held_frozen)}")
        self._watch("half of the jobs", lambda: self._share_done() >= KILL_AT)
        held_killed = self._catch(killed)
        killed.kill()
        self._tell(f"killed {killed.name} (SIGKILL) while it works on {_slow(held_killed)}; nobody replaces it")
        self._kill_a_coordinator()
        late = self._thaw(frozen, held_frozen)
        self._watch("the leases of the killed worker to run out", lambda: held_killed <= set(self._ledger.expired))
        self._repair_and_requeue()
        self._watch("all jobs", self._all_done)
        faults = [self._stop(worker) for worker in workers if worker is not killed]
        faults.append(self._send_late_completion(late))
        faults.extend(self._latecomer.faults())
        outcome = self._audit([fault for fault in faults if fault], right)
        if fault := self._stop(self._coordinators[-1]):
            outcome.faults.append(fault)
        return outcome

    # Acts -----------------------------------------------------------------------------------------------------

    def _start_coordinator(self, name: str) -> str:
        """Its URL, once it answers."""
        directory = self._cast.directory
        port_file = directory / f"port-{name}"
        place = ["--data", str(directory / "data")] if self._store is None else ["--store", self._store]
        coordinator = self._cast.start(
            name, "serve", *place, "--port", "0", "--port-file", str(port_file), "--log-format", "json"
        )
        self._coordinators.append(coordinator)

        def port() -> str | None:
            coordinator.must_run()
            return port_file.read_text().strip() if port_file.exists() else None

        url = f"http://127.0.0.1:{self._cast.wait_for(f'the {name}', port)}"
        store = "a database" if self._store else str(directory / "data")
        self._tell(f"a {name} serves on {url}, its store is in {store}".replace("a coordinator-", "coordinator-"))
        return url

    def _kill_a_coordinator(self) -> None:
        if len(self._coordinators) > 1:
            killed = self._coordinators[0]
            killed.kill()
            self._tell(f"killed {killed.name} (SIGKILL), which the workers asked; they turn to the other")

    def _start_worker(self, name: str) -> Process:
        return self._cast.start(
            name, "worker", "eventjobs.cli.demo.handlers:worker", "--url", self._for_workers, "--name", name,
            "--lease-seconds", str(LEASE_SECONDS), "--log-format", "json",
        )  # fmt: skip

    def _enqueue(self) -> None:
        self._broken.touch()
        for first in range(0, len(self._tasks), BATCH_JOBS_MAX):
            batch = self._tasks[first : first + BATCH_JOBS_MAX]
            self._remote.post("/jobs/batch", {"jobs": [task.request(self._broken) for task in batch]})
        sorts = [task.sort for task in self._tasks]
        self._tell(
            f"{len(sorts):,} jobs, one for each file of {Path(self._tasks[0].path).parent}: "
            f"{sorts.count(Sort.SLOW)} take their time, {sorts.count(Sort.FLAKY)} fail twice, "
            f"{sorts.count(Sort.DOOMED)} fail until they are dead"
        )

    def _catch(self, worker: Process) -> set[Taken]:
        """Freeze the worker in the middle of slow jobs; these jobs.

        They were leased so long before that their handlers have begun, and so shortly before that none has ended.
        """

        def caught() -> set[Taken]:
            worker.freeze()
            now = datetime.now(UTC)
            self._follow()
            begun, ended = (now - timedelta(seconds=share * SLOW_SECONDS) for share in (SURELY_BEGUN, MAYBE_ENDED))
            held = self._ledger.held_by(worker.name, SLOW_KIND, since=ended, until=begun)
            if not held:
                worker.thaw()
            return held

        return self._watch(f"{worker.name} to be in the middle of a slow job", caught)

    def _thaw(self, worker: Process, held: set[Taken]) -> Taken:
        """Thaw the worker once its leases are over; one of them, whose late completion the coordinator refused.

        A worker may learn from a refused renewal that it is late before it has a completion to send; then it is
        frozen once more.
        """
        self._watch(f"the leases of {worker.name} to run out", lambda: held <= set(self._ledger.expired))
        worker.thaw()
        self._tell(f"thawed {worker.name} (SIGCONT); the leases it had are over, and what it sends for them is late")
        self._watch(f"{worker.name} to learn that it is late", lambda: held <= _given_up(worker))
        completions = [taken for taken in self._late_completions() if taken.worker == worker.name]
        return completions[0] if completions else self._thaw(worker, self._catch(worker))

    def _late_completions(self) -> set[Taken]:
        """Expired leases whose worker's completion was refused later, as the coordinator's log lines tell."""
        refused = Counter(taken for taken, request in self._late_requests() if request == "complete")
        return set(refused - self._latecomer.sent)

    def _late_requests(self) -> list[tuple[Taken, str]]:
        """Requests for leases that had run out, refused by their token, as the coordinator's log lines tell."""
        expired = {(taken.job_id, taken.token): taken for taken in self._ledger.expired}
        return [
            (expired[line["job_id"], line["token"]], line["request"])
            for coordinator in self._coordinators
            for line in coordinator.lines()
            if line["event"] == "refused"
            and line["code"] == "stale_token"
            and (line["job_id"], line["token"]) in expired
        ]

    def _repair_and_requeue(self) -> None:
        """As an operator would: look at the dead, mend what they died of, requeue them."""
        doomed = sum(task.sort is Sort.DOOMED for task in self._tasks)
        others = len(self._tasks) - doomed
        self._watch(
            "the doomed jobs to die and the others to be done",
            lambda: self._ledger.dead() >= doomed and self._ledger.succeeded() >= others,
        )
        self._tell(f"{self._ledger.dead()} jobs are dead; mended what they died of, and requeued them")
        self._broken.unlink()
        self._remote.post("/dead/requeue", {})

    def _send_late_completion(self, late: Taken) -> str | None:
        """Complete a job once more under a token that is over: it must be refused and leave no trace."""
        before = self._head()
        fault = complete_late(self._remote, late)
        return fault or (None if self._head() == before else "a refused completion left a trace in the log")

    def _stop(self, process: Process) -> str | None:
        code = process.stop()
        return f"{process.name} ended with code {code} when it was asked to stop" if code else None

    # What the log says ----------------------------------------------------------------------------------------

    def _watch(self, what: str, found: Callable[[], Any]) -> Any:
        """Follow the log until `found` has a true value, and return it."""

        def look() -> Any:
            for process in self._cast.processes:
                process.must_run()
            self._follow()
            return found()

        return self._cast.wait_for(what, look, ACT_SECONDS)

    def _follow(self) -> None:
        _read_on(self._remote, self._ledger)
        if self._latecomer.look(self._ledger):
            _read_on(self._remote, self._ledger)
            self._latecomer.judge(self._ledger)
        self._progress.update(self._bar, completed=self._ledger.succeeded())

    def _share_done(self) -> float:
        return self._ledger.succeeded() / len(self._tasks)

    def _all_done(self) -> bool:
        if self._ledger.dead():  # a lease that ran out on a busy machine can kill a requeued job once more
            self._remote.post("/dead/requeue", {})
        return self._ledger.succeeded() == len(self._tasks)

    def _head(self) -> dict[str, Any]:
        return orjson.loads(self._remote.get("/events", after=self._ledger.position, limit=1))["head"]

    def _tell(self, words: str) -> None:
        self._progress.console.print(
            f"[dim]{time.monotonic() - self._began:5.1f} s[/]  {words}", highlight=False, soft_wrap=True
        )

    def _audit(self, faults: list[str], right_results: Iterator[dict[str, Any]]) -> Outcome:
        """Read everything back, from the first event on, and compare it with what the demo found in the files."""
        self._tell("reading the whole log back, and comparing every result with the demo's own")
        whole = Ledger()
        _read_on(self._remote, whole)
        head = self._head()
        late = Counter(request for _, request in self._late_requests())
        right = dict(zip((task.path for task in self._tasks), right_results, strict=True))
        faults = faults + audit(whole, head["size"], self._tasks, _list_jobs(self._remote), right)
        return Outcome(
            jobs=len(self._tasks),
            bytes=sum(result["bytes"] for result in right.values()),
            compressed_bytes=sum(result["compressed_bytes"] for result in right.values()),
            events=dict(whole.counts),
            expired_leases=dict(Counter(taken.worker for taken in whole.expired)),
            late_completions_refused=late["complete"],
            late_completions_overtaken=self._latecomer.overtaken,
            late_renewals_refused=late["renew"],
            log_events=head["size"],
            log_root=head["root"],
            seconds=round(time.monotonic() - self._began, 1),
            faults=faults,
        )


def _given_up(worker: Process) -> set[Taken]:
    """The leases the worker was told it had lost, as its log lines tell: at a renewal, or at the completion."""
    return {
        Taken(line["job_id"], line["token"], worker.name)
        for line in worker.lines()
        if line["event"] in ("lease_lost", "outcome_refused")
    }


def _read_on(remote: Remote, ledger: Ledger) -> None:
    """Fold what the log has beyond the ledger's position."""
    while events := orjson.loads(remote.get("/events", after=ledger.position, limit=LIST_LIMIT_MAX))["events"]:
        for event in events:
            ledger.take(event)


def _list_jobs(remote: Remote) -> list[dict[str, msgspec.Raw]]:
    """Every job, its values as JSON text."""
    jobs: list[dict[str, msgspec.Raw]] = []
    cursor = None
    while True:
        page = msgspec.json.decode(
            remote.get("/jobs", limit=LIST_LIMIT_MAX, cursor=cursor), type=dict[str, msgspec.Raw]
        )
        jobs.extend(msgspec.json.decode(page["jobs"], type=list[dict[str, msgspec.Raw]]))
        cursor = msgspec.json.decode(page["next_cursor"])
        if cursor is None:
            return jobs


def _slow(held: set[str]) -> str:
    return f"{len(held)} slow job{'' if len(held) == 1 else 's'}"
