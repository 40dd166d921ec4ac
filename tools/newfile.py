"""A file that is there as a whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from eventjobs.store.flushing import flush


class NotWritten(Exception):
    """The file was not written; whatever was there is as it was. The text says why."""


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes appear under the path, on disk, when the block ends without an error.

    Until then they lie beside it, under `.NAME.part`; what a killed run left there is written over. Raises NotWritten
    when there is a file already, when another run writes it, and when the disk is full or fails.
    """
    if path.exists() or path.is_symlink():
        raise NotWritten(f"{path} is there already; it is not written over")
    part = path.with_name(f".{path.name}.part")
    try:
        stream = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "wb")
    except OSError as error:
        raise NotWritten(f"{path} cannot be written: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotWritten(f"{path} is being written by another run") from error
        try:
            yield from _written(stream, part, path)
        except BaseException:
            stream.raw.close()  # what is still in the buffer is of no use, and may not find room
            part.unlink(missing_ok=True)
            raise


def _written(stream: BinaryIO, part: Path, path: Path) -> Iterator[BinaryIO]:
    try:
        stream.truncate(0)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        os.link(part, path)  # unlike a rename it fails where a file has appeared meanwhile
        part.unlink()
        flush(path.parent)
    except FileExistsError as error:
        raise NotWritten(f"{path} is there already; it is not written over") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if full else error.strerror
        raise NotWritten(f"{path} cannot be written: {reason}") from error
