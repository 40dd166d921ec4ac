"""What must hold around an LMDB environment before it may be trusted: one process, a local disk, no fork."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from eventjobs.store.contract import AlreadyOpen, StoreError

LOCK_FILE = "coordinator.lock"

REMOTE_FILESYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "davfs", "vboxsf", "virtiofs"),
        *("ceph", "glusterfs", "lustre", "beegfs", "gpfs", "ocfs2", "gfs2"),
    )
)
"""File systems on which memory maps and locks of two hosts, or fsync, cannot be relied on. FUSE counts as well."""


class DirectoryLock:
    """An exclusive flock on a file of our own: one coordinator per data directory, also across containers."""

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK_FILE
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise AlreadyOpen(
                f"{directory} is in use by a coordinator (process {holder}); stop that one first"
            ) from error
        holder = f"{os.getpid()}\n".encode()
        os.pwrite(self._file, holder, 0)  # before it is cut to length: a full disk has no other room for it
        os.ftruncate(self._file, len(holder))

    def release(self) -> None:
        os.close(self._file)


def check_filesystem(directory: Path, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Refuse a remote file system. Where the system does not tell its mounts (not Linux) nothing is checked."""
    if not mounts.exists():
        return
    kind = filesystem_type(directory.resolve(), os.fsdecode(mounts.read_bytes()))
    if kind in REMOTE_FILESYSTEMS or kind.startswith("fuse"):
        raise StoreError(
            f"{directory} lies on a {kind} file system, where LMDB can lose data; "
            "use a local disk (or --force-filesystem if you know that it is one)"
        )


def filesystem_type(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds the path, by the longest matching mount point in `mountinfo`."""
    best, found = "", "unknown"
    for line in filter(None, mountinfo.split("\n")):
        fields, _, rest = line.partition(" - ")
        point = _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), fields.split(" ")[4])
        if path.is_relative_to(point) and len(point) >= len(best):
            best, found = point, rest.split(" ")[0]
    return found


_OCTAL = re.compile(r"\\([0-7]{3})")
"""How the system writes space, tab, line end and backslash in its table of mounts; all else stands as it is."""


class ForkGuard:
    """Knows whether this process is the one that opened the store. A forked child must not use it: LMDB would let it
    write without an error and damage the file."""

    def __init__(self) -> None:
        self.forked = False
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self.forked = True

    def check(self) -> None:
        if self.forked:
            raise StoreError("the store was opened before a fork and cannot be used in the child; start a new process")
