"""What the engines are asked beside the model includes the statistics of the past."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eventjobs.projections import stats_past

SNAPSHOT_RECORDS = 32
"""So few that a life has many snapshots, each with what the jobs before it were like."""


@pytest.fixture(autouse=True, scope="module")
def snapshots_are_taken() -> Iterator[None]:
    """Every table of every read model gets rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_past, "SNAPSHOT_RECORDS", SNAPSHOT_RECORDS)
        yield
