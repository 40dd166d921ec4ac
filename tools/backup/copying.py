"""Copying a whole store into a file, from its directory or from the coordinator that runs on it.

Either way the file is written row by row, so that nothing is in it but what the store has at that moment: no free
pages, and nothing that was erased.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import BinaryIO

from eventjobs.cli.remote import Remote
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.contract import StoreError
from eventjobs.store.lmdb.anew import write_anew
from eventjobs.store.lmdb.snapshot import NoStore, data_file, open_snapshot, structural_faults
from eventjobs.store.lmdb.unsealing import unseal_into
from eventjobs.tools.backup.verified import Damaged
from eventjobs.tools.verify.verify import Progress


def copy_directory(directory: Path, target: Path, progress: Progress) -> None:
    """Copy the store in a directory, a coordinator running on it or not, with what it has in its archive. Raises
    StoreError."""
    file = data_file(directory)
    _copy(file, target, progress)
    archive = Archive(file.with_name(ARCHIVE_DIRECTORY))
    unseal_into(target, archive, lambda done, total: progress("archive", done, total))


def copy_from_coordinator(url: str, target: Path, progress: Progress) -> tuple[str | None, str | None]:
    """Copy the store that a coordinator has; the size and the root that it announced. Raises Unreachable, StoreError.

    What it sends lies beside the target meanwhile, in a file without a name, which goes with this process.
    """
    with tempfile.TemporaryFile(dir=target.parent) as stream:
        said = _fetch(url, stream, progress)
        sent = Path(f"/proc/self/fd/{stream.fileno()}")
        try:
            faults = structural_faults(sent)
        except NoStore as error:
            raise StoreError(f"what {url} sent is not a store of eventjobs") from error
        if faults:
            raise Damaged(f"what {url} sent is damaged: {faults[0]}")
        _copy(sent, target, progress)
    return said


def _copy(file: Path, target: Path, progress: Progress) -> None:
    with open_snapshot(file) as snapshot:
        write_anew(snapshot, target, lambda rows, total: progress("rows", rows, total))


def _fetch(url: str, stream: BinaryIO, progress: Progress) -> tuple[str | None, str | None]:
    """Write what the coordinator sends into the file; the size and the root that it announced."""
    done = 0

    def write(piece: bytes) -> None:
        nonlocal done
        stream.write(piece)
        done += len(piece)
        progress("fetch", done, 0)

    with Remote(url) as remote:
        headers = remote.download("/backup", write)
    stream.flush()
    return headers.get("Eventjobs-Log-Size"), headers.get("Eventjobs-Log-Root")
