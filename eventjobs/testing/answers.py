"""All that a store answers about its jobs, as documents: to compare two stores, or a store with what it once said."""

from __future__ import annotations

import json

import orjson

from eventjobs.api.render import Document, stored_job
from eventjobs.api.render_stats import stats_document
from eventjobs.projections import stats
from eventjobs.store.contract import Engine


def answers(engine: Engine) -> Document:
    """Every job as GET /jobs/{id} shows it, by id, and GET /stats with the head. Read as one state.

    Numbers that are no integers come as their text, for a payload may hold any.
    """
    with engine.read() as reader:
        ids = dict.fromkeys(record.job_id for record in reader.records(0, reader.head().size))
        jobs = {job_id: stored_job(reader, job) for job_id in ids if (job := reader.job(job_id)) is not None}
        document = {"jobs": jobs, "stats": stats_document(stats.read(reader), reader.head())}
        return json.loads(orjson.dumps(document), parse_float=str)
