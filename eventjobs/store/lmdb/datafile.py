"""Opening LMDB's file: a new one is there as a whole or not at all, and an old one is as long as it must be.

LMDB maps the file and trusts it. Of a file that was cut off it would make an empty store, if nothing is left, or end
the process with SIGBUS once it touches a page that is gone. Of the two heads at the beginning of the file it takes the
one with the higher number: a bit that turned in a number would silently take back the last commit.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import lmdb
import lmdb.verify

from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.layout import HEAD_BYTES, FileHead
from eventjobs.store.lmdb.tables import MAX_DATABASES

DATA_FILE = "data.mdb"

_PAGE_SIZE, _PAGE_SIZE_AT = struct.Struct("=I"), 40
_NUMBER, _NUMBER_AT = struct.Struct("=Q"), 144
_HEAD_BYTES = _NUMBER_AT + _NUMBER.size
"""Where a page that holds a head of LMDB 0.9 has the size of pages and the number of the head's transaction."""


def open_environment(directory: Path, map_size: int) -> lmdb.Environment:
    """Open the environment in a directory whose lock is held, making it if there is none.

    Raises StoreError (Corrupt for a file that was cut off or has a damaged head) and lmdb.Error.
    """
    file = directory / DATA_FILE
    is_new = not file.exists()
    if not is_new and file.stat().st_size == 0:
        raise Corrupt(f"{file} is empty, which the file of a store never is; if there was no store yet, remove it")
    if not is_new and (fault := fault_of_heads(file)) is not None:
        raise Corrupt(f"{file} is damaged: {fault}; put back a copy of it")
    try:
        env = _open(directory, map_size)
    except (lmdb.Error, StoreError):
        if is_new:  # the beginning of one would look like the file of another program
            file.unlink(missing_ok=True)
        raise
    last_page, page_size = env.info()["last_pgno"], env.stat()["psize"]
    if file.stat().st_size >= (last_page + 1) * page_size:
        return env
    env.close()  # as the file must not be opened and closed beside it
    _check_short(file)
    return _open(directory, map_size)


def _open(directory: Path, map_size: int) -> lmdb.Environment:
    try:
        return lmdb.open(os.fsencode(directory), map_size=map_size, max_dbs=MAX_DATABASES, max_readers=512)
    except lmdb.InvalidError as error:
        raise StoreError(f"{directory}/{DATA_FILE} is not a store of eventjobs: {error}") from error
    except lmdb.MemoryError as error:
        reason = f"there is no address space for a map of {map_size} bytes; use a smaller --map-size"
        raise StoreError(reason) from error


def fault_of_heads(file: Path) -> str | None:
    """What is wrong with the numbers of the two heads, None if nothing is. Each commit writes over the older one, so
    they are those of the last two transactions, the even one first; or both 0, before the first.

    One turned bit goes unseen here: the second lowest of a number, where that leads to two that follow each other too.
    """
    with file.open("rb") as stream:
        first = stream.read(_HEAD_BYTES)
        if len(first) < _HEAD_BYTES:
            return None  # LMDB says what it thinks of it
        stream.seek(_PAGE_SIZE.unpack_from(first, _PAGE_SIZE_AT)[0])
        second = stream.read(_HEAD_BYTES)
    if len(second) < _HEAD_BYTES:
        return None
    even, odd = (_NUMBER.unpack_from(head, _NUMBER_AT)[0] for head in (first, second))
    if even == odd == 0 or (even % 2 == 0 and abs(even - odd) == 1):
        return None
    return f"its two heads are of transactions {even} and {odd}, which do not follow each other"


def fault_of_length(file: Path) -> str | None:
    """Whether the file ends before the last page that its newer head speaks of."""
    with file.open("rb", buffering=0) as stream:
        try:
            heads = [FileHead.parse(stream.read(HEAD_BYTES))]
            stream.seek(heads[0].free.page_size)
            heads.append(FileHead.parse(stream.read(HEAD_BYTES)))
        except struct.error:
            return "the file ends before its heads do: it was cut off"
    newer = max(heads, key=lambda head: head.transaction)
    there, wanted = file.stat().st_size, (newer.last_page + 1) * heads[0].free.page_size
    if there >= wanted:
        return None
    return f"the file has {there:,} bytes, but its head speaks of {wanted:,}: it was cut off"


def _check_short(file: Path) -> None:
    """Refuse a file that ends before its last page, unless all that is missing is free pages, which were never
    written. Every page in use is looked at for that, as bytes."""
    try:
        faults = lmdb.verify.verify(str(file), subdir=False)
    except lmdb.verify.VerifyError as error:
        faults = [str(error)]
    if faults:
        raise Corrupt(f"{file} was cut off at {file.stat().st_size} bytes: {faults[0]}; put back a copy of it")
