"""Verifying in another process. A damaged file can end the process that reads it; then that is what is reported."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson

from eventjobs.store.contract import Head, StoreError
from eventjobs.store.lmdb.snapshot import NoStore, data_file, in_use, structural_faults
from eventjobs.tools.verify.report import Report, path_text
from eventjobs.tools.verify.verify import Progress

Document = dict[str, object]
"""A report as JSON has it."""


class Failed(Exception):
    """The verification itself came to no end; what it had to say is on standard error."""


def verify_isolated(path: Path, kept_head: Head | None, quick: bool, progress: Progress) -> Document:
    """See verify.verify. Raises NoStore and Failed."""
    wanted = {"store": os.fsencode(path).hex(), "kept_head": None, "quick": quick}
    if kept_head is not None:
        wanted["kept_head"] = {"size": kept_head.size, "root": base64.b64encode(kept_head.root).decode()}
    arguments = [sys.executable, "-P", "-m", "eventjobs.tools.verify"]
    said: Document = {}
    at = ("start", 0, 0)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(orjson.dumps(wanted))
            process.stdin.close()
            for line in process.stdout:
                said = orjson.loads(line)
                if "at" in said:
                    at = tuple(said["at"])
                    progress(*at)
        except BaseException:
            process.kill()
            raise
    if "report" in said:
        return said["report"]
    if "cannot" in said:
        raise NoStore(said["cannot"])
    if process.returncode >= 0:
        raise Failed(f"the verification failed with exit code {process.returncode}")
    return _ended_by(-process.returncode, path, at)


def _ended_by(number: int, path: Path, at: tuple[str, int, int]) -> Document:
    """The report when reading the file ended the process. It is read once more, as bytes, which can do no harm."""
    name = signal.Signals(number).name
    if number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        raise Failed(f"the verification was ended by {name}")
    report = Report(path_text(path))
    reading = report.check("reading")
    what, done, total = at
    reading.fault("crashed", f"reading the file ended the process with {name}, at {what} {done:,} of {total:,}")
    structure = report.check("structure")
    try:
        file = data_file(path)
        if in_use(file):
            structure.leave("a coordinator has the store open")
        else:
            for fault in structural_faults(file):
                structure.fault("structure", fault)
    except StoreError as error:
        structure.leave(str(error))
    return report.document()
