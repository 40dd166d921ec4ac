"""A file that is there as a whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from eventjobs.store.contract import StoreError
from eventjobs.store.flushing import flush

PARTIAL = ".partial"
"""What the name of a file ends with until it is whole."""


class NotWritten(StoreError):
    """The file was not written; whatever was there is as it was. The text says why."""


@frozen
class NewFile:
    """A file that does not have its name yet: where it lies until then, and a stream to write it by."""

    path: Path
    stream: BinaryIO


@contextmanager
def new_file(target: Path) -> Iterator[NewFile]:
    """A file that gets its name, on disk, when the block ends without an error; else it is removed.

    Until then it lies beside it, under `NAME.partial`; what a killed run left there is written over. Raises NotWritten
    when there is a file already, when another run writes it, and when the disk is full or fails.
    """
    refuse_existing(target)
    path = target.with_name(target.name + PARTIAL)
    with _told(target), path.open("ab") as stream:
        _lock(path, stream)
        try:
            stream.truncate(0)
            yield NewFile(path, stream)
            stream.flush()
            give_name(path, target)
        except BaseException:
            stream.raw.close()  # what is still in the buffer is of no use, and may not find room
            path.unlink(missing_ok=True)
            raise


def _lock(path: Path, stream: BinaryIO) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise NotWritten(f"{path} is being written by another process") from error
    if not path.exists() or not os.path.samestat(os.fstat(stream.fileno()), path.stat()):
        raise NotWritten(f"{path} was just finished by another process")


@contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = "" if error.filename is None else f" ({error.filename})"
        raise NotWritten(
            f"{target} cannot be written: {'the disk is full' if full else error.strerror}{where}"
        ) from error


def refuse_existing(target: Path) -> None:
    """Raise NotWritten when there is something of that name."""
    if os.path.lexists(target):
        raise NotWritten(f"{target} is there already, and nothing is written over; name another file")


def give_name(path: Path, target: Path) -> None:
    """Put a file that is whole on disk, then in its place. Raises NotWritten when something is there by now."""
    flush(path)
    refuse_existing(target)
    path.rename(target)
    flush(target.parent)
