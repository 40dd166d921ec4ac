"""Keeping the map's pages from being counted, and feared, as the coordinator's own memory (Linux).

Every page of the file that was ever touched stays mapped, so the process seems to grow with the store although the
pages belong to the system's cache and can go at any time. Unmapping them with MADV_DONTNEED loses nothing: the map is
shared and read-only, and a page that is needed again is found in the cache.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

MAPPED_BYTES_MAX = 48 << 20
"""Resident file pages beyond which the map is let go."""

_MADV_DONTNEED = 4
_STATM = Path("/proc/self/statm")
_MAPS = Path("/proc/self/maps")


def release_pages(data_file: Path) -> bool:
    """Let go of the resident pages of the map of `data_file` if they are many. False when there was nothing to do."""
    if not _STATM.exists() or _resident_file_bytes() <= MAPPED_BYTES_MAX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    released = False
    name = b" " + os.fsencode(data_file)
    for line in _MAPS.read_bytes().splitlines():
        if line.endswith(name):
            start, end = (int(address, 16) for address in line.split(maxsplit=1)[0].split(b"-"))
            if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED) != 0:
                raise OSError(ctypes.get_errno(), "madvise")
            released = True
    return released


def _resident_file_bytes() -> int:
    return int(_STATM.read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")
