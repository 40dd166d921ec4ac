"""The entry point: a group that knows its commands by name and loads a command's module when it is used."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

import click

from eventjobs import __version__
from eventjobs.cli import exits, options
from eventjobs.cli.reporting import ReportingCommand

GROUPS = {
    "Run": {
        "serve": ("eventjobs.cli.serve:serve", "Run the coordinator."),
        "worker": ("eventjobs.cli.worker:worker", "Run jobs with the handlers of a Worker."),
        "enqueue": ("eventjobs.cli.enqueue:enqueue", "Put a job in, or one for each line."),
        "demo": ("eventjobs.cli.demo.command:demo", "Show on real files that nothing is lost or done twice."),
        "bench": ("eventjobs.tools.bench.command:bench", "Measure the speed of this machine."),
    },
    "Look at what goes on, by asking the coordinator": {
        "stats": ("eventjobs.cli.stats:stats", "Show how many jobs there are, and what waits for what: begin here."),
        "jobs": ("eventjobs.cli.jobs:jobs", "List jobs, newest first."),
        "dead": ("eventjobs.cli.jobs:dead", "List the jobs that were given up."),
        "show": ("eventjobs.cli.show:show", "Show a job and its history."),
        "why": ("eventjobs.cli.why:why", "Say why a job is not running now."),
        "history": ("eventjobs.cli.history:history", "Tell what happened to a job, when, by whom and why."),
        "tail": ("eventjobs.cli.tail:tail", "Follow the log."),
    },
    "Change jobs": {
        "requeue": ("eventjobs.cli.requeue:requeue", "Give dead jobs a fresh set of attempts."),
        "cancel": ("eventjobs.cli.cancel:cancel", "Stop jobs for good."),
        "erase": ("eventjobs.cli.erase:erase", "Erase payload, result and errors of finished jobs."),
    },
    "Audit the log": {
        "verify": ("eventjobs.tools.verify.command:verify", "Check that nothing was altered, lost or cut off."),
        "head": ("eventjobs.cli.head:head", "Print the head of the log, to be kept elsewhere."),
        "prove": ("eventjobs.cli.prove:prove", "Prove what is in the log, or that it begins with a kept head."),
        "keygen": ("eventjobs.cli.keygen:keygen", "Make a key to sign the log's head with."),
        "replay": ("eventjobs.tools.replay.command:replay", "Show jobs as they were at any point of the log."),
    },
    "Keep the store": {
        "intake": ("eventjobs.cli.intake:intake", "Show what producers' transactions asked for and what was refused."),
        "backup": ("eventjobs.tools.backup.command:backup", "Copy a whole store into a file while it is at work."),
        "restore": (
            "eventjobs.tools.backup.command:restore_command",
            "Make a store of a backup, up to any point of it.",
        ),
        "export": ("eventjobs.tools.transfer.command:export_command", "Write the log as lines of JSON."),
        "import": ("eventjobs.tools.transfer.command:import_command", "Make a store of an export."),
        "rebuild": ("eventjobs.tools.rebuild.command:rebuild_command", "Make read models and indexes anew."),
        "archive": ("eventjobs.cli.archive:archive", "Move old records of the log into the archive."),
        "compact": ("eventjobs.cli.compact:compact", "Give the room of what is gone back to the disk."),
    },
}
"""What a reader is about to do: name: (module:attribute, what it does). The words here are the command's short help."""
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that help and completion are fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        options.name_variables(command)
        return ReportingCommand.of(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, COMMANDS)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), words) for name, (_, words) in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in exits.MEANINGS.items()])


@click.group(cls=LazyGroup, context_settings={"max_content_width": 120})
@click.version_option(__version__, prog_name="eventjobs", message="%(prog)s %(version)s")
def cli() -> None:
    """A background-job coordinator that can prove what happened.

    `eventjobs COMMAND --help` has the options of a command; each can also be set by the variable of the environment
    that is named beside it, before which the command line goes. Listings take --json for scripts.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (sys.argv by default) and exit with a code of exits.MEANINGS."""
    _let_any_text_through()
    try:
        code = cli.main(arguments, prog_name="eventjobs", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = exits.INTERRUPTED
    sys.exit(code or exits.DONE)


def _let_any_text_through() -> None:
    """What the encoding of the output has no sign for is shown by its code, and does not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
