"""Pages that are not what they should be: what lies on them is named, and all the rest is looked at all the same."""

from __future__ import annotations

import random

import pytest

from eventjobs.store.lmdb.damaged import open_damaged
from eventjobs.store.lmdb.layout import BRANCH, LEAF, PAGE_HEAD, nodes_of
from eventjobs.store.lmdb.snapshot import open_snapshot
from eventjobs.tools.verify.report import Outcome

PAGE = 4096


def pages_of(content: bytes, sort: int) -> list[int]:
    """The pages of a sort that have their own number."""
    heads = {page: PAGE_HEAD.unpack_from(content, page * PAGE) for page in range(2, len(content) // PAGE)}
    return [page for page, (own, _, found, _, _) in heads.items() if own == page and found == sort]


def positions_on(content: bytes, page: int) -> list[int]:
    """The positions of the records on a page, none if it has something else."""
    text = content[page * PAGE : page * PAGE + PAGE]
    nodes = nodes_of(text, PAGE_HEAD.unpack_from(text)[3])
    keys = [text[at + 8 : at + 16] for at in nodes if text[at + 6 : at + 8] == b"\x08\0"]
    return [int.from_bytes(key) for key in keys if b'{"position":%d,' % int.from_bytes(key) in text]


def lost(content: bytes, page: int) -> bytes:
    """As after a write that never came to the disk."""
    return content[: page * PAGE] + bytes(PAGE) + content[page * PAGE + PAGE :]


def of(report, name: str):
    return next(check for check in report.checks if check.name == name)


def test_as_bytes_it_is_the_same(store):
    """What is read without LMDB is what LMDB reads, from wherever it is begun."""
    with open_snapshot(store.directory) as one, open_damaged(store.directory) as other:
        assert (one.names, one.log_size(), one.archived) == (other.names, other.log_size(), other.archived)
        for name in one.names:
            rows = list(one.rows(name))
            assert (list(other.rows(name)), other.count(name)) == (rows, one.count(name))
            for key, value in rows[:: max(1, len(rows) // 9)]:
                assert list(other.rows(name, key)) == list(one.rows(name, key))
                assert list(other.rows(name, key + b"\0")) == list(one.rows(name, key + b"\0"))
                assert other.stored(name, key) == value
                assert other.stored(name, key + b"\0") is None


def test_a_page_of_the_log(store):
    """Exactly the records on it are named, and every other one is held against its checksum and the tree."""
    whole, size = store.file.read_bytes(), store.head().size
    pages = [page for page in pages_of(whole, LEAF) if len(positions_on(whole, page)) > 3]
    for page in random.Random(1).sample(pages, 4):
        store.file.write_bytes(lost(whole, page))
        report = store.verify(quick=True)
        positions = positions_on(whole, page)
        if report.outcome is Outcome.SOUND:
            continue  # the page was free
        assert report.first_bad == positions[0]
        assert of(report, "records").facts == f"the checksums of {size - len(positions):,} records match"
        assert {each.sort for each in of(report, "records").faults} == {"record_missing"}


@pytest.mark.parametrize("name", ["contents", "tree", "projection/jobs", "projection/history"])
def test_a_page_beside_the_log(store, name):
    """Whatever else is lost, no record is said to be bad, and all of them are held against the head."""
    content, size = store.file.read_bytes(), store.head().size
    with open_snapshot(store.directory) as snapshot:
        _, value = next(snapshot.rows(name))
    pages = [page for page in pages_of(content, LEAF) if value in content[page * PAGE : page * PAGE + PAGE]]
    for page in pages:
        content = lost(content, page)
    store.file.write_bytes(content)
    report = store.verify()
    assert report.outcome is Outcome.DAMAGED and report.first_bad is None
    assert of(report, "records").facts == f"the checksums of {size:,} records match, no position is missing"
    assert of(report, "tree").facts == f"the root over {size:,} records is the head's"
    said = of(report, name.removeprefix("projection/")).faults[0].text
    assert f"{name}: page" in said and said.endswith("is not what it should be")


@pytest.mark.parametrize("share", [0.4, 0.7, 0.9])
def test_a_file_that_was_cut_off(store, share):
    """That is what is said first, and then which records it took; the others are looked at."""
    whole, size = store.file.read_bytes(), store.head().size
    store.file.write_bytes(whole[: int(len(whole) * share)])
    report = store.verify()
    told = f"the file has {int(len(whole) * share):,} bytes, but its head speaks of "
    assert report.checks[0].faults[0].text.startswith(told)
    read = int(of(report, "records").facts.split()[3].replace(",", ""))
    assert 0 < read < size
    assert f"Before position {report.first_bad:,} every record passes every check that was made." in report.said


def test_ways_that_lead_in_a_circle(store):
    """A branch that leads to itself, or to a page of another table, is not followed for ever."""
    whole = store.file.read_bytes()
    for page in pages_of(whole, BRANCH):
        text = whole[page * PAGE : page * PAGE + PAGE]
        at = page * PAGE + nodes_of(text, PAGE_HEAD.unpack_from(text)[3])[-1]
        store.file.write_bytes(whole[:at] + page.to_bytes(2, "little") + whole[at + 2 :])
        report = store.verify(quick=True)
        assert report.outcome in (Outcome.SOUND, Outcome.UNCHECKED, Outcome.DAMAGED)
    store.file.write_bytes(whole)
    assert store.verify(quick=True).outcome is Outcome.SOUND
