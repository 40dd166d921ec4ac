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

    All of it is that of one moment, the one in which the export begins: what is erased meanwhile is in it, and the
    record that says so is not.
    """
    with source.one_moment() as head:
        exported = Exported(head)
        stream.write(header_line(Header(origin, head)))
        _write_log(source, stream, exported, progress)
    stream.write(end_line(head))
    progress("log", head.size, head.size)
    return exported


def _write_log(source: Source, stream: BinaryIO, exported: Exported, progress: Tell) -> None:
    tree = Frontier()
    leaves: list[bytes] = []
    for entry in source.entries():
        _write(entry, stream, exported)
        leaves.append(leaf_hash(entry.text))
        tree.append(leaves[-1])
        if len(leaves) == BLOCK:
            stream.write(block_line(entry.position, complete_root(leaves)))
            leaves.clear()
            progress("log", entry.position, exported.head.size)
    if tree.root() != exported.head.root:
        raise Corrupt("log: the records are not those that the store's head stands for; verify tells which")


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
