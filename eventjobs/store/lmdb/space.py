"""Telling a full disk from a broken one.

A write that finds a little room and not enough is cut short by the system without an error, and LMDB calls that an
input/output error, as it would one of the device.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

PROBE_FILE = "space-probe"
PROBE_BYTES = 1 << 20
"""What must fit for the disk not to count as full: more than a write that was cut short leaves free."""

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


def no_space_left(directory: Path) -> bool:
    """Whether the disk, or a quota on it, has no room for PROBE_BYTES more. Writes a file and removes it."""
    path = directory / PROBE_FILE
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error.errno in _NO_SPACE
    try:
        return os.write(file, bytes(PROBE_BYTES)) < PROBE_BYTES
    except OSError as error:
        return error.errno in _NO_SPACE
    finally:
        os.close(file)
        path.unlink()
