"""`eventjobs rebuild`: the command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.progress import Tell, progress_bars
from eventjobs.cli.sources import store_options
from eventjobs.cli.stores import Database, needs_psycopg
from eventjobs.domain.projection import Projection
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.tools.rebuild.findings import Finding
from eventjobs.tools.rebuild.rebuild import PROJECTIONS, check, rebuild
from eventjobs.tools.verify.report import counted

Work = Callable[[Path | Database, Sequence[Projection], Tell], list[Finding]]


@click.command(name="rebuild", short_help="Make read models and indexes anew.")
@store_options("Directory of the store.", "PostgreSQL database instead, postgresql://USER@HOST/NAME.")
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice(list(PROJECTIONS)),
    help=f"Only this one; may be given several times. All are: {', '.join(PROJECTIONS)}.",
)
@click.option("--check", "only_check", is_flag=True, help="Compare, and change nothing.")
@options.json_option
def rebuild_command(place: Path | Database, names: tuple[str, ...], only_check: bool, as_json: bool) -> None:
    """Make read models and indexes anew from the log.

    They are made beside those that are there, compared row by row, and what differs is put right in one commit: killed
    at any moment, the store is as it was before or as it is after. No coordinator may run on a store in a directory,
    but with --check, which looks at a copy then; those of a database wait while rows are compared and put right.

    The exit code is 0 when it is done or all is the same, 1 when --check found a difference or the log is damaged, and
    2 when it could not be done.
    """
    projections = [projection for name, projection in PROJECTIONS.items() if not names or name in names]
    try:
        with progress_bars() as tell:
            findings = _work_on(place)[0 if only_check else 1](place, projections, tell)
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    except OSError as error:
        raise exits.CannotCheck(f"{place} cannot be written: {error.strerror}") from error
    if as_json:
        output.print_json(orjson.dumps([attrs.asdict(each) | {"same": each.same} for each in findings]))
    else:
        _print(findings, only_check)
    sys.exit(exits.REFUSED if only_check and not all(each.same for each in findings) else exits.DONE)


def _work_on(place: Path | Database) -> tuple[Work, Work]:
    """How the store is compared, and how it is rebuilt."""
    if not isinstance(place, Database):
        return check, rebuild
    with needs_psycopg(StoreError):
        from eventjobs.tools.rebuild import database

    return database.check, database.rebuild


def _print(findings: list[Finding], only_check: bool) -> None:
    rows = []
    for each in findings:
        outcome = (
            output.text("same", "green") if each.same else output.text("differs" if only_check else "rebuilt", "yellow")
        )
        rows.append((each.name, outcome, f"{counted(each.rows, 'row')}{_about(each)}"))
    print_columns(("read model", "outcome", "what was found"), rows)


def _about(finding: Finding) -> str:
    if finding.differing:
        more = "differs" if finding.differing == 1 else "differ, the first"
        return f"; {finding.differing:,} {more} ({finding.first})"
    return "; of an older rule or behind the log" if finding.stale else ""
