"""Writing a log as lines of JSON, in one pass, with as little of it in memory as a stretch of the source is."""

from __future__ import annotations

from typing import BinaryIO

from attrs import define

from eventjobs.cli.progress import Tell
from eventjobs.store.contract import Corrupt
from eventjobs.store.merkle import Frontier, complete_root, leaf_hash
from eventjobs.tools.source import Entry, Source, SourceHead
from eventjobs.tools.transfer.lines import BLOCK, Header, block_line, content_line, end_line, header_line
from eventjobs.tools.verify.contents import CONTENT_FIELDS


@define
class Exported:
    """What was written: the head it stands for, how many contents, and how many are not there any more."""

    head: SourceHead
    contents: int = 0
    gone: int = 0


def export(source: Source, origin: str, stream: BinaryIO, progress: Tell) -> Exported:
    """Write the log of a source. Raises StoreError for a log that is damaged, or in a form that is not known.

    The log is that of the newest head when the export begins. Only where a content was found to be gone, it goes on to
    a later head, so that the record which says why is in the export as well.
    """
    exported = Exported(source.head())
    stream.write(header_line(Header(origin, exported.head)))
    tree, gone_before = Frontier(), 0
    leaves: list[bytes] = []
    while True:
        for entry in source.entries(after=tree.size):
            _write(entry, stream, exported)
            leaves.append(leaf_hash(entry.text))
            tree.append(leaves[-1])
            if len(leaves) == BLOCK:
                stream.write(block_line(entry.position, complete_root(leaves)))
                leaves.clear()
                progress("log", entry.position, exported.head.size)
        if tree.root() != exported.head.root:
            raise Corrupt("log: the records are not those that the store's head stands for; verify tells which")
        if exported.gone == gone_before:
            break
        gone_before, exported.head = exported.gone, source.follow()
    stream.write(end_line(exported.head))
    progress("log", tree.size, exported.head.size)
    return exported


def _write(entry: Entry, stream: BinaryIO, exported: Exported) -> None:
    event = entry.record().event
    if b"\n" in entry.text:
        raise Corrupt(f"log: the record at position {entry.position} has a line end")
    stream.write(entry.text + b"\n")
    name = CONTENT_FIELDS.get(type(event))
    if entry.content is not None:
        stream.write(content_line(entry.position, entry.content))
        exported.contents += 1
    elif name is not None and getattr(event, name) is not None:
        exported.gone += 1
