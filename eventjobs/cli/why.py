"""`eventjobs why`: why a job is not running, in a sentence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import orjson

from eventjobs.api.routes_settle import canonical_id
from eventjobs.cli import documents, events, options, output
from eventjobs.cli.history import log_read, no_job
from eventjobs.cli.remote import Remote, job_path
from eventjobs.cli.sources import source_options
from eventjobs.cli.stores import Database
from eventjobs.tools.replay import reasons

Why = dict[str, Any]
SHOWN_MAX = 5
"""Workers and queues that a sentence names; --json has more."""


@click.command(short_help="Say why a job is not running now.")
@click.argument("job_id", metavar="ID")
@options.json_option
@source_options
def why(job_id: str, as_json: bool, store: Path | Database | None, url: str) -> None:
    """Say why a job is not running now: it waits for its time or its retry, other jobs are before it, no worker asks
    for its queue and kind, a worker has it, or it has ended.

    With --data or --store the log itself is read. It knows jobs that were retired, but not who asks for jobs.
    """
    if store is not None:
        answer = _stored(store, job_id)
    else:
        with Remote(url) as remote:
            answer = remote.get(job_path(job_id, "why"))
    if as_json:
        output.print_json(answer)
    else:
        output.console().print(output.text(sentence(documents.loads(answer))), soft_wrap=True)


def _stored(store: Path | Database, job_id: str) -> bytes:
    """What the log says, as the coordinator would have it."""
    wanted = canonical_id(job_id)
    with log_read(store) as source:
        found = None if wanted is None else reasons.why(source, wanted, time.time_ns() // 1_000)
    if found is None:
        raise no_job(job_id, store)
    return orjson.dumps(found)


def sentence(found: Why) -> str:
    """The document in words."""
    return f"{found['kind']} {found['id']} is {found['state']}: {reason(found)}"


def reason(found: Why) -> str:
    """What the job waits for, or why it does not wait."""
    match found["reason"]:
        case "scheduled":
            return f"scheduled for {output.clock(found['run_at'])}, in {_until(found, 'run_at')}"
        case "waiting_for_retry":
            return (
                f"attempt {found['attempts']} of {found['max_attempts']} failed with "
                f"{output.first_line(found['error'])}; the next is not before {output.clock(found['run_at'])}, "
                f"in {_until(found, 'run_at')}"
            )
        case "nobody_asks":
            wanted = f"queue {found['queue']} and kind {found['kind']}"
            if found["asked"]["for_this"]:
                return f"no worker asks this coordinator for {wanted} any more; {_askers(found)}"
            return f"no worker asked this coordinator for {wanted} {_since(found)}"
        case "workers_full":
            return (
                "the workers that ask for it hold as many jobs as they have room for, and ask again when one ends; "
                f"{_askers(found)}; {_place(found['ahead'])}"
            )
        case "behind_others":
            return f"{_ahead(found['ahead'])} before it in the order of leasing; {_askers(found)}"
        case "next":
            return f"it is the next for those who ask; {_askers(found)}"
        case "due":
            return "it can be leased; who asks for jobs is known to a running coordinator alone"
        case "retired":
            return f"{_past(found)}; {_retired(found['retired'])}"
        case "running":
            return (
                f"worker {found['lease_owner']} has it until {output.clock(found['lease_expires_at'])} "
                f"(attempt {found['attempts']} of {found['max_attempts']}, token {found['lease_token']}); "
                f"running for {_ago(found, found['leased_at'])}"
            )
        case "expiring":
            return _expiring(found)
    return _past(found)


def _expiring(found: Why) -> str:
    """Whose lease ran out, and who is about to end it."""
    ran_out = f"the lease of worker {found['lease_owner']} ran out at {output.clock(found['lease_expires_at'])}"
    if found["asked"] is None:
        return f"{ran_out}, and no coordinator has ended it yet"
    if found["spared_until"] is None:
        return f"{ran_out}, and is about to be ended"
    return (
        f"{ran_out}, while nobody could renew it; after the outage the coordinator waits until "
        f"{output.clock(found['spared_until'])} for what the worker may have to say"
    )


def _past(found: Why) -> str:
    """How the job ended, and which of its contents were erased since."""
    return "; ".join([_ended(found), *map(_erased, found["erasures"])])


def _retired(event: Why) -> str:
    when, rule = output.clock(event["time"]), event["data"]["rule"]
    return f"{events.actor(event)} retired it at {when} by the rule: {rule}"


def _ended(found: Why) -> str:
    """Who ended the job, when, and why."""
    event = found["ended"]
    who, when = events.actor(event), output.clock(event["time"])
    match event["type"]:
        case "job_died":
            last = "" if found["error"] is None else f"; last error: {output.first_line(found['error'])}"
            return f"given up at {when}, {events.cause(event['data'])}{last}"
        case "job_canceled":
            return f"{who} canceled it at {when}: {events.reason(event['data'])}"
    return f"{who} completed it at {when} (attempt {found['attempts']} of {found['max_attempts']})"


def _erased(event: Why) -> str:
    what, when = events.erased(event["data"]), output.clock(event["time"])
    return f"{events.actor(event)} erased {what} at {when}: {events.reason(event['data'])}"


def _until(found: Why, name: str) -> str:
    return output.duration((output.moment(found[name]) - output.moment(found["time"])).total_seconds())


def _since(found: Why) -> str:
    """Since when nobody asked, and for what the workers that did ask wanted jobs."""
    asked = found["asked"]
    since = f"in the last {_ago(found, asked['since'])}"
    if not asked["requests"]:
        return f"{since}, nor for any other"
    return f"{since}; asked was for {_list([_wish(each) for each in asked['latest']], asked['requests'])}"


def _ago(found: Why, time: str) -> str:
    return output.duration((output.moment(found["time"]) - output.moment(time)).total_seconds())


def _wish(asked: Why) -> str:
    parts = [
        f"{word}s {', '.join(names[:SHOWN_MAX])}{' …' if len(names) > SHOWN_MAX else ''}"
        for word, names in (("queue", asked["queues"]), ("kind", asked["kinds"]))
        if names is not None
    ]
    return f"{' and '.join(parts) or 'anything'} (worker {asked['worker']})"


def _place(ahead: Why) -> str:
    return f"{_ahead(ahead)} before it" if ahead["jobs"] else "it is the next"


def _ahead(ahead: Why) -> str:
    number = f"more than {ahead['jobs']:,} jobs are" if ahead["more"] else f"{ahead['jobs']:,} jobs are"
    if not ahead["more"] and ahead["jobs"] == 1:
        number = "1 job is"
    lanes = [f"{each['jobs']:,} {each['kind']} in {each['queue']}" for each in ahead["lanes"]]
    return f"{number} ({_list(lanes, len(lanes))})"


def _askers(found: Why) -> str:
    """Who last asked for jobs like this one."""
    asked = found["asked"]
    latest = [f"{each['worker']} {_ago(found, each['time'])} ago" for each in asked["latest"]]
    return f"last asked: {_list(latest, asked['requests'])}"


def _list(parts: list[str], total: int) -> str:
    shown = parts[:SHOWN_MAX]
    more = total - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
