"""Numbers for Prometheus, taken from the kept statistics at the moment they are asked for.

Totals come from the log and so survive a restart. Gauges of jobs are by queue and state; kinds are in /stats. Of the
intake, which leaves nothing in the log, each coordinator counts what it took in and refused since its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from attrs import frozen
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from eventjobs.projections.stats import Histogram, Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@frozen
class IntakeNumbers:
    """How long the oldest request of the intake waits (seconds, 0 without any), and how many this coordinator has taken
    in and refused."""

    wait_seconds: float
    taken: int
    refused: int


class StatsCollector(Collector):
    """Turns statistics, the log's size, and of a shared store what goes through its intake, into metrics."""

    def __init__(self, stats: Stats, log_size: int, intake: IntakeNumbers | None = None) -> None:
        self._stats, self._log_size, self._intake = stats, log_size, intake

    def describe(self) -> list[Metric]:
        """Nothing: so registering it collects nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        stats, log_size = self._stats, self._log_size
        yield _total("jobs_processed", "Jobs that succeeded.", stats.completed)
        yield _total("jobs_failed", "Attempts that a worker reported as failed.", stats.failed_attempts)
        yield _total("jobs_dead", "Times a job was given up.", stats.died)
        yield _total("lease_expirations", "Leases that ran out.", stats.lease_expirations)
        events = CounterMetricFamily("eventjobs_events", "Records of the log.", labels=["type"])
        for event_type, count in stats.events.items():
            events.add_metric([event_type], count)
        yield events
        yield GaugeMetricFamily("eventjobs_log_size", "The newest position of the log.", log_size)
        jobs = GaugeMetricFamily("eventjobs_jobs", "Jobs by queue and state.", labels=["queue", "state"])
        for queue, states in stats.queues.items():
            for state, count in states.items():
                jobs.add_metric([queue, state], count)
        yield jobs
        yield _histogram("job_execution_seconds", "From the lease to its end.", stats.run_histogram)
        yield _histogram("job_wait_seconds", "From the time a job was due to its lease.", stats.wait_histogram)
        if self._intake is not None:
            yield from _of_intake(self._intake)


def _of_intake(intake: IntakeNumbers) -> Iterator[Metric]:
    waits = "How long the oldest request waits that a producer's transaction has put into the intake."
    yield GaugeMetricFamily("eventjobs_intake_wait_seconds", waits, intake.wait_seconds)
    yield _total("intake_taken", "Requests of the intake that this coordinator enqueued.", intake.taken)
    yield _total("intake_refused", "Requests of the intake that this coordinator refused.", intake.refused)


def metrics_text(collector: Collector) -> bytes:
    """What the collector has to say, in the text format."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def _total(name: str, meaning: str, value: int) -> Metric:
    return CounterMetricFamily(f"eventjobs_{name}", meaning, value)


def _histogram(name: str, meaning: str, histogram: Histogram) -> Metric:
    bounds = [*(str(float(bound)) for bound in histogram.bounds_seconds), "+Inf"]
    buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
    return HistogramMetricFamily(f"eventjobs_{name}", meaning, buckets, histogram.sum_seconds)
