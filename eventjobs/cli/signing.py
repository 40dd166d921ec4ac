"""How heads of the log are written: under which name, and signed with which key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from eventjobs.cli import options
from eventjobs.cli.exits import Refused
from eventjobs.store.checkpoint import Checkpoint, Checkpoints, parse_checkpoint
from eventjobs.store.notes import BadNote, CannotSign, PublicKey, SigningKey

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)


def signing_options(command: Command) -> Command:
    """--origin and --signing-key, for `checkpoints`."""
    command = options.setting(
        "--signing-key",
        "key_file",
        type=FILE,
        metavar="FILE",
        help="Private key to sign the log's head with; see keygen.",
    )(command)
    return options.setting(
        "--origin", metavar="NAME", help="Name of this log in its heads; the key's name, or eventjobs, when left out."
    )(command)


def checkpoints(origin: str | None, key_file: Path | None) -> Checkpoints:
    """What writes heads. Raises Refused when the key cannot be used."""
    try:
        key = None if key_file is None else SigningKey.parse(_text(key_file).decode("utf-8", "replace"))
        return Checkpoints.of(origin, key)
    except BadNote as error:
        raise Refused(f"{key_file or '--origin'}: {error}") from error
    except CannotSign as error:
        raise Refused(str(error)) from error


def kept_head(file: Path, public_key: Path | None = None, origin: str | None = None) -> Checkpoint:
    """The head that was kept in a file. Raises Refused when it is none, not signed by the key that is given, or not of
    the log that has this name."""
    note = _text(file)
    try:
        checkpoint = parse_checkpoint(note)
        signed = public_key is None or PublicKey.parse(_text(public_key).decode("utf-8", "replace")).has_signed(note)
    except BadNote as error:
        raise Refused(f"{file}: {error}") from error
    except CannotSign as error:
        raise Refused(str(error)) from error
    if not signed:
        raise Refused(f"{file}: the head is not signed by the key in {public_key}, or was changed since")
    if origin not in (None, checkpoint.origin):
        raise Refused(f"{file}: the head is of a log named {checkpoint.origin}, not {origin}")
    return checkpoint


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}") from error
