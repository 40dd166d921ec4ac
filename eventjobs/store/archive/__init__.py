"""The archive: the oldest records of a log in sealed files, one for each segment, beside the store they came from.

The files stay under the same tree as the live records, so that whoever reads the log reads both as one.
"""

from eventjobs.store.archive.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.archive.layout import PART_RECORDS
from eventjobs.store.archive.manifest import MANIFEST_FILE, SEGMENT_LEVEL

__all__ = ["ARCHIVE_DIRECTORY", "MANIFEST_FILE", "PART_RECORDS", "SEGMENT_LEVEL", "Archive"]
