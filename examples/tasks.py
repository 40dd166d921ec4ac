"""A worker with two kinds of work. In this folder: eventjobs worker tasks:worker"""

import hashlib

from eventjobs import Worker

worker = Worker("http://127.0.0.1:8484", concurrency=10)


@worker.handler("greet")
async def greet(job):
    """A coroutine runs on the worker's event loop. What it returns is the job's result."""
    return f"Hello, {job.payload['name']}!"


@worker.handler("digest")
def digest(job):
    """A plain function runs in a thread. An exception is a failed attempt, and the job's retry policy decides."""
    return {"sha256": hashlib.sha256(job.payload["text"].encode()).hexdigest()}
