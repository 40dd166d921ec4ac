"""`eventjobs worker`: a worker as a process."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import Any

import click

from eventjobs.cli import exits, logs, options
from eventjobs.client.errors import Refused
from eventjobs.domain.limits import URL_DEFAULT
from eventjobs.worker import Worker


@click.command(short_help="Run jobs with the handlers of a Worker.")
@click.argument("target", metavar="MODULE:NAME")
@options.setting(
    "--url", "coordinator", metavar="URL", help=f"The coordinator's address; {URL_DEFAULT} if the program names none."
)
@options.setting(
    "--name", metavar="NAME", help="The worker's name in the log; made up when left out. Each process needs its own."
)
@options.setting(
    "--concurrency", metavar="NUMBER", type=int, help="How many jobs to run at once, 1 to 10,000; else 50."
)
@options.setting(
    "--queue",
    "queues",
    metavar="QUEUE",
    multiple=True,
    help="Take only jobs of this queue; can be given several times, in the variable with spaces between; else of all.",
)
@options.setting(
    "--lease-seconds",
    metavar="SECONDS",
    type=float,
    help="How long jobs stay with a worker that fell silent, before another may have them, 0.1 to 86,400; else 30.",
)
@options.setting(
    "--grace-seconds",
    metavar="SECONDS",
    type=float,
    help="How long handlers may go on when the worker stops; else 25.",
)
@options.log_options
def worker(target: str, queues: tuple[str, ...], log_level: str, log_format: str, **given: Any) -> None:
    """Run jobs with the handlers of the Worker that MODULE:NAME names, such as tasks:worker for one in tasks.py.

    Modules are looked for in the current directory first. An option that is given goes before what the program says;
    what its help calls else holds where neither says anything.

    SIGTERM or Ctrl+C stops it in good order: no more jobs, handlers may finish for the time of grace, what is left
    is given back unharmed. A second signal ends it at once. While the coordinator is away the worker waits for it.
    """
    logs.configure(log_level, log_format)
    loaded = _load(target)
    try:
        loaded.configure(queues=queues or None, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not loaded.kinds:
        raise click.UsageError(f"{target} has no handlers; register functions with @worker.handler(kind)")
    try:
        loaded.run()
    except Refused as refusal:
        raise exits.Refused(str(refusal)) from refusal


def _load(target: str) -> Worker:
    module, _, name = target.partition(":")
    if not module or not name:
        raise click.UsageError(f"{target!r} does not look like MODULE:NAME, such as tasks:worker")
    sys.path.insert(0, os.getcwd())
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise exits.Refused(_broken(module, error)) from error
        hint = f"; did you mean {module[:-3]}:{name}?" if module.endswith(".py") else ""
        where = f"in {os.getcwd()}, and none is installed"
        raise click.UsageError(f"there is no module {module!r} {where}{hint}") from error
    except Exception as error:
        raise exits.Refused(_broken(module, error)) from error
    workers = [f"{module}:{each}" for each, value in vars(found).items() if isinstance(value, Worker)]
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Worker):
        there = f"; {module} has {', '.join(workers)}" if workers else ""
        raise click.UsageError(f"{target} is {'not there' if found is None else 'no Worker'}{there}")
    return found


def _broken(module: str, error: Exception) -> str:
    """What is wrong with the program's module: a traceback of the program's own frames, without how it was loaded."""
    trace = error.__traceback__
    while trace is not None and _loads(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    return f"{module!r} cannot be imported\n{''.join(traceback.format_exception(type(error), error, trace)).rstrip()}"


def _loads(name: str) -> bool:
    """Whether a module of this name is part of how the program's module is loaded."""
    return name in (__name__, "importlib", "importlib._bootstrap", "importlib._bootstrap_external")
