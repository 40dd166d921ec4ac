"""Times are read from any RFC 3339 text and written in one form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.api.faults import Unfit
from eventjobs.api.wire_time import moment, seconds, time_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00.000000Z"),
        ("2026-01-31t08:00:00z", "2026-01-31T08:00:00.000000Z"),
        ("2026-01-31T08:00:00.5+05:30", "2026-01-31T02:30:00.500000Z"),
        ("2026-01-31T08:00:00.123456-00:00", "2026-01-31T08:00:00.123456Z"),
        ("2026-01-31T08:00:00.123456999Z", "2026-01-31T08:00:00.123456Z"),
        ("2024-02-29T23:59:59-23:59", "2024-03-01T23:58:59.000000Z"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_read_and_written(text, written):
    """Any offset, any number of digits; written in UTC with six."""
    assert time_text(moment(text)) == written


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2026-01-31",
        "2026-01-31T08:00:00",
        "2026-01-31 08:00:00Z",
        "2026-01-31T08:00Z",
        "2026-01-31T08:00:00.Z",
        "2026-01-31T08:00:00+0100",
        "2026-01-31T08:00:00+24:00",
        "2026-01-31T08:00:00+01:60",
        "2026-02-30T08:00:00Z",
        "2025-02-29T08:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T08:60:00Z",
        "2026-06-30T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "٢٠٢٦-01-31T08:00:00Z",
        "2026-W05-6T08:00:00Z",
        " 2026-01-31T08:00:00Z",
        "2026-01-31T08:00:00Z\n",
        1_767_225_600,
        True,
        ["2026-01-31T08:00:00Z"],
    ],
)
def test_what_is_no_time_is_refused(value):
    """No offset, another format, or a time that no calendar has."""
    with pytest.raises(Unfit, match=r"^must "):
        moment(value)


@given(
    st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)),  # noqa: DTZ001 - hypothesis wants them naive
    st.integers(-1439, 1439),
)
def test_reading_turns_writing_round(local, minutes):
    """For every time and offset, the same instant comes out, to the microsecond."""
    aware = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    written = time_text(moment(aware.isoformat()))
    assert datetime.fromisoformat(written) == aware
    assert written == aware.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_durations_are_seconds():
    """A number, fractions kept."""
    assert (seconds(0), seconds(1_500_000), seconds(1)) == (0, 1.5, 1e-06)
