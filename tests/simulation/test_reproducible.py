"""One integer decides everything: the same seed is the same run, in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from eventjobs.testing.simulation import run_seed

SEEDS = (1, 2, 3)
PROGRAM = """
import sys
from eventjobs.testing.simulation import run_seed
print(*(run_seed(int(seed)).digest for seed in sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def digests() -> list[str]:
    """Those of the seeds' stories, in this process."""
    return [run_seed(seed).digest for seed in SEEDS]


def test_the_same_seed_is_the_same_story(digests):
    """Run again, to the last line; another seed is another story."""
    assert [run_seed(seed).digest for seed in SEEDS] == digests
    assert len(set(digests)) == len(SEEDS)


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_another_process_tells_the_same_story(digests, hash_seed):
    """Neither the order of hashes nor where things lie in memory decides anything."""
    program = [sys.executable, "-c", PROGRAM, *map(str, SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    told = subprocess.run(program, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.split() == digests


def test_the_whole_story_can_be_had():
    """With every line kept the story is the same; the end that is kept otherwise is its end."""
    whole, end = run_seed(1, keep_all=True), run_seed(1)
    assert whole.digest == end.digest
    assert whole.lines[-len(end.lines) :] == end.lines
    assert len(whole.lines) > len(end.lines)
