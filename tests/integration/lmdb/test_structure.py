"""The quick look at a file's structure asks all that the thorough one asks: what it finds sound is sound."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb.verify
import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.snapshot import structural_faults
from eventjobs.store.lmdb.structure import looks_sound
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live, retain

PAGE = 4096
FLIPS = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> bytes:
    """The file of a store with tables, pages that are free, and contents that have pages of their own."""
    directory = tmp_path_factory.mktemp("structure") / "data"
    engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
    driver = Driver(engine)
    live(driver, jobs=60)
    retain(driver, jobs=60)
    long = b.content('"' + "x" * 20_000 + '"', 1)
    driver.execute(*[b.enqueue(b.an_id(900 + number), payload=long, now=b.at(20_000)) for number in range(3)])
    driver.execute(b.cancel(b.an_id(901), now=b.at(20_000)), b.erase(b.an_id(901), now=b.at(20_000)))
    engine.close()
    return (directory / "data.mdb").read_bytes()


def flipped(content: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def test_a_sound_file_looks_sound(sound, tmp_path, monkeypatch):
    """And nothing else is asked then."""
    (file := tmp_path / "file").write_bytes(sound)
    assert looks_sound(file)
    assert lmdb.verify.verify(str(file), subdir=False) == []
    monkeypatch.delattr(lmdb.verify, "verify")
    assert structural_faults(file) == []


@pytest.mark.parametrize("seed", range(5))
def test_nothing_passes_that_the_thorough_look_finds(sound, tmp_path, seed):
    """Bits are turned where pages say what they are, where their nodes are named, and anywhere."""
    chance, file, odd = random.Random(seed), tmp_path / "file", 0
    for _ in range(FLIPS):
        reach = chance.choice([24, 24, 200, PAGE])
        place = chance.randrange(len(sound) // PAGE) * PAGE + chance.randrange(reach)
        file.write_bytes(flipped(sound, place, chance.randrange(8)))
        if not looks_sound(file):
            odd += 1
        else:
            assert lmdb.verify.verify(str(file), subdir=False) == [], f"place {place}"
    assert odd > FLIPS // 12


def test_what_pages_say_of_each_other(sound, tmp_path):
    """A page that is lost, met twice, or of another tree; keys out of order; counts that are wrong; a file cut off."""
    file, pages = tmp_path / "file", len(sound) // PAGE
    heads = [int.from_bytes(sound[at + 144 : at + 152], "little") for at in (0, PAGE)]
    head = PAGE if heads[1] > heads[0] else 0
    last = int.from_bytes(sound[head + 136 : head + 144], "little")

    def of_pages(count: int) -> bytes:
        return sound[: head + 136] + count.to_bytes(8, "little") + sound[head + 144 :]

    for what, changed in {
        "cut off": sound[:-PAGE],
        "half a page": sound[: PAGE * (pages // 2) + 100],
        "another number of entries": flipped(sound, head + 40 + 48 + 32, 0),
        "another root": flipped(sound, head + 40 + 48 + 40, 0),
        "another depth": flipped(sound, head + 40 + 48 + 6, 0),
        "one page less": of_pages(last - 1),
        "one page more, that nothing leads to": of_pages(last + 1) + bytes(PAGE),
        "no free pages": sound[: head + 40 + 8] + bytes(32) + b"\xff" * 8 + sound[head + 88 :],
    }.items():
        file.write_bytes(changed)
        assert not looks_sound(file), what


def test_other_files_are_left_to_the_thorough_look(tmp_path):
    """What is no file of LMDB, and one whose tables are of sorts that no store of eventjobs has."""
    (file := tmp_path / "file").write_bytes(b"hello" * 5_000)
    assert not looks_sound(file)
    file.write_bytes(b"")
    assert not looks_sound(file)
    with lmdb.open(str(tmp_path / "other"), max_dbs=2) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"1", db=env.open_db(b"many", txn=txn, dupsort=True))
    other = tmp_path / "other" / "data.mdb"
    assert not looks_sound(other) and structural_faults(other) == []


def test_sizes_that_are_no_pages(sound, tmp_path):
    """A size of pages that no file has is not divided by."""
    (file := tmp_path / "file").write_bytes(sound[:40] + bytes(4) + sound[44:])
    assert not looks_sound(file)
    assert structural_faults(Path(file))
