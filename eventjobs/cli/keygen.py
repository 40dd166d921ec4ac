"""`eventjobs keygen`: a key to sign heads of the log with."""

from __future__ import annotations

import os
from pathlib import Path

import click

from eventjobs.cli.exits import Refused
from eventjobs.cli.signing import FILE
from eventjobs.store.notes import BadNote, CannotSign, SigningKey

PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o644


@click.command(short_help="Make a key to sign the log's head with.")
@click.argument("name")
@click.option(
    "--out",
    type=FILE,
    metavar="FILE",
    default=Path("eventjobs-head.key"),
    show_default=True,
    help="Where the private key goes; the public one goes to FILE.pub.",
)
def keygen(name: str, out: Path) -> None:
    """Make a key to sign the log's head with, under a NAME such as example.com/jobs.

    Keep the private key where the coordinator, or `head`, can read it and nobody else can; give the public one to those
    who check. Both have the form of Go's note package, which other transparency tools read too.
    """
    try:
        key = SigningKey.new(name)
    except (BadNote, CannotSign) as error:
        raise Refused(str(error)) from error
    public = out.with_name(out.name + ".pub")
    if public.exists():
        raise _there(public)
    _write_new(out, key.text(), PRIVATE_MODE)
    _write_new(public, key.public_key.text(), PUBLIC_MODE)
    click.echo(key.public_key.text())
    click.echo(f"eventjobs: the private key is in {out}, the public one in {public}", err=True)


def _write_new(path: Path, line: str, mode: int) -> None:
    """Write a file that was not there. Keys are never written over."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError as error:
        raise _there(path) from error
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(f"{line}\n")


def _there(path: Path) -> Refused:
    return Refused(f"{path} is there already; keys are not written over")
