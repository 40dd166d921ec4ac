"""Metrics are what the statistics say, in the text format, with nothing of the process in them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from eventjobs.api.metrics import IntakeNumbers, StatsCollector, metrics_text
from eventjobs.projections.stats import Histogram, Stats

STATES = {"queued": 2, "running": 0, "failed": 0, "succeeded": 3, "dead": 1, "canceled": 0}
STATS = Stats(
    jobs=STATES,
    queues={"images": STATES},
    kinds={"thumbnail": STATES},
    average_wait_seconds=0.5,
    average_run_seconds=2.0,
    lease_expirations=4,
    completed=3,
    failed_attempts=5,
    died=1,
    events={"job_enqueued": 6, "job_leased": 8},
    wait_histogram=Histogram((0.1, 1), (1, 0, 1), 3.0, 2),
    run_histogram=Histogram((0.1, 1), (0, 2, 0), 1.5, 2),
)


def samples() -> dict[str, float]:
    """Every sample by its name and labels."""
    text = metrics_text(StatsCollector(STATS, 21)).decode()
    return {
        sample.name + str(sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_intake_is_told_of_where_there_is_one():
    """How long the oldest request waits, and what this coordinator did; nothing of it without a shared store."""
    text = metrics_text(StatsCollector(STATS, 21, IntakeNumbers(1.5, 7, 2))).decode()
    assert "eventjobs_intake_wait_seconds 1.5\n" in text
    assert "eventjobs_intake_taken_total 7.0\n" in text and "eventjobs_intake_refused_total 2.0\n" in text
    assert not any("intake" in name for name in samples())


def test_totals_come_from_the_statistics():
    """Counters by their documented names."""
    found = samples()
    assert found["eventjobs_jobs_processed_total[]"] == 3
    assert found["eventjobs_jobs_failed_total[]"] == 5
    assert found["eventjobs_jobs_dead_total[]"] == 1
    assert found["eventjobs_lease_expirations_total[]"] == 4
    assert found["eventjobs_events_total['job_leased']"] == 8
    assert found["eventjobs_log_size[]"] == 21


def test_jobs_are_counted_by_queue_and_state():
    """Every state, the empty ones too."""
    found = samples()
    assert {state: found[f"eventjobs_jobs{sorted(['images', state])}"] for state in STATES} == STATES


def test_histograms_are_cumulative():
    """Each bucket counts all that are not longer; the last counts all."""
    found = samples()
    for bound, count in (("0.1", 1), ("1.0", 1), ("+Inf", 2)):
        assert found[f"eventjobs_job_wait_seconds_bucket['{bound}']"] == count
    assert found["eventjobs_job_wait_seconds_sum[]"] == 3.0
    assert found["eventjobs_job_execution_seconds_count[]"] == 2
    assert found["eventjobs_job_execution_seconds_bucket['0.1']"] == 0


def test_nothing_else_is_told():
    """No numbers of the process or the runtime."""
    assert all(name.startswith("eventjobs_") for name in samples())
