"""Verifying a store in a database: its log and contents, by an export that is made of it and looked at as any other."""

from __future__ import annotations

import tempfile

from eventjobs.api.render_proofs import ORIGIN_DEFAULT
from eventjobs.cli.progress import Tell
from eventjobs.cli.stores import Database
from eventjobs.store.contract import Corrupt, Head, StoreError
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer.export import export
from eventjobs.tools.verify.export import verify_export
from eventjobs.tools.verify.report import Report, counted

UNREADABLE = "Size and root are those that the head in the database says. What else the log has was not looked at."
NOT_COMPARED = "Not looked at: job rows, indexes and read models."
NOT_LOOKED_AT = f"{NOT_COMPARED} Lines are those of an export of the database."


def verify_database(database: Database, kept_head: Head | None, quick: bool, progress: Tell) -> Report:
    """Verify the log in a database, of which coordinators may be running, and the contents beside it.

    The export lies in the directory for temporary files meanwhile. Raises StoreError where there is no store, Away, and
    when there is no room for the export.
    """
    report = Report(str(database))
    reading = report.check("reading")
    with tempfile.TemporaryFile(prefix="eventjobs-verify-") as stream:
        try:
            with open_source(database) as source:
                head = source.head()
                report.size, report.root = head.size, head.root_text()
                exported = export(source, ORIGIN_DEFAULT, stream, progress)
        except Corrupt as error:
            reading.fault("unreadable", str(error))
            report.said += [UNREADABLE, NOT_COMPARED]
            return report
        except OSError as error:
            text = f"no export can be made to be verified: {error.strerror}; TMPDIR names another place"
            raise StoreError(text) from error
        reading.facts = f"the checksums of {counted(exported.head.size, 'record')} match, no position is missing"
        stream.seek(0)
        verify_export(stream, report, kept_head, quick, progress)
    report.said.append(NOT_LOOKED_AT)
    return report
