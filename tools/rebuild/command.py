"""`eventjobs rebuild`: the command."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.progress import progress_bars
from eventjobs.store.contract import StoreError
from eventjobs.tools.rebuild.rebuild import PROJECTIONS, Finding, check, rebuild
from eventjobs.tools.verify.report import counted


@click.command(name="rebuild", short_help="Make read models and indexes anew.")
@options.data_option()
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
def rebuild_command(data: Path, names: tuple[str, ...], only_check: bool, as_json: bool) -> None:
    """Make read models and indexes anew from the log.

    They are made beside those that are there, compared row by row, and what differs is put right in one commit: killed
    at any moment, the store is as it was before or as it is after. No coordinator may run on the store, but with
    --check, which looks at a copy then.

    The exit code is 0 when it is done or all is the same, 1 when --check found a difference, and 2 when it could not be
    done.
    """
    projections = [projection for name, projection in PROJECTIONS.items() if not names or name in names]
    try:
        with progress_bars() as tell:
            findings = (check if only_check else rebuild)(data, projections, tell)
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    except OSError as error:
        raise exits.CannotCheck(f"{data} cannot be written: {error.strerror}") from error
    if as_json:
        output.print_json(orjson.dumps([attrs.asdict(each) | {"same": each.same} for each in findings]))
    else:
        _print(findings, only_check)
    sys.exit(exits.REFUSED if only_check and not all(each.same for each in findings) else exits.DONE)


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
