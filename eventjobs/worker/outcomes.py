"""How an attempt ends: what a handler's return value or exception becomes on the wire."""

from __future__ import annotations

import traceback
from types import TracebackType

from eventjobs.client.errors import InvalidValue
from eventjobs.client.requests import Completion, Failure
from eventjobs.client.values import Raw, to_json
from eventjobs.domain.limits import CONTENT_BYTES_MAX, ERROR_TEXT_BYTES_MAX, RETRY_DELAY_SECONDS_MAX
from eventjobs.worker.context import JobContext

CUT = " … (cut) … "
OUR_FRAMES = "eventjobs.worker."
PUBLIC_HOME = "eventjobs"
"""Where programs import from: jobs and tracebacks name an exception as whoever raised it knows it."""


class GiveUp(Exception):
    """Raised by a handler: this job cannot succeed. It is dead at once, whatever attempts are left."""

    __module__ = PUBLIC_HOME


class RetryIn(Exception):
    """Raised by a handler: try again after `seconds` (0 to 7 days), instead of the delay of the job's policy."""

    __module__ = PUBLIC_HOME

    def __init__(self, seconds: float, message: str = "") -> None:
        seconds = float(seconds)  # a Decimal, say, is within bounds but has no JSON
        if not 0 <= seconds <= RETRY_DELAY_SECONDS_MAX:
            raise ValueError(f"a retry delay is between 0 and {RETRY_DELAY_SECONDS_MAX} seconds, unlike {seconds}")
        super().__init__(message or f"to be tried again in {seconds} s")
        self.seconds = seconds

    def __reduce__(self) -> tuple[type[RetryIn], tuple[float, str]]:
        """Survives the way back from a process pool."""
        return type(self), (self.seconds, str(self))


def completion(job: JobContext, value: object) -> Completion | Failure:
    """The success with this return value, or a final failure when it is no result that can be kept."""
    try:
        text = to_json(value)
    except InvalidValue as error:
        return _no_result(job, f"the handler returned {type(value).__name__}, which is not a JSON value: {error}")
    if len(text) > CONTENT_BYTES_MAX:
        return _no_result(job, f"the result has {len(text)} bytes; at most {CONTENT_BYTES_MAX} can be kept")
    return Completion(job.id, job.token, Raw(text))


def failure(job: JobContext, error: BaseException) -> Failure:
    """The failed attempt that an exception stands for. The traceback begins with the handler's own frames."""
    lines = traceback.format_exception(*own_part(error))
    document = {
        "type": _sendable(_name(error)),
        "message": _sendable(_message(error)),
        "traceback": _sendable("".join(lines), keep_end=True),
    }
    return Failure(
        job.id,
        job.token,
        document,
        retry=not isinstance(error, GiveUp),
        retry_in_seconds=error.seconds if isinstance(error, RetryIn) else None,
    )


def refused_result(refused: Completion, reason: str) -> Failure:
    """The final failure of a job whose result the coordinator would not take."""
    error = {"type": "ResultRefused", "message": _sendable(reason)}
    return Failure(refused.id, refused.token, error, retry=False)


def size_of(outcome: Completion | Failure) -> int:
    """About how many bytes the outcome takes on the wire."""
    if isinstance(outcome, Completion):
        return 128 + len(outcome.result)
    return 256 + sum(len(text) for text in outcome.error.values())


def _no_result(job: JobContext, message: str) -> Failure:
    return Failure(job.id, job.token, {"type": "InvalidResult", "message": _sendable(message)}, retry=False)


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - a handler's exception may be unable to say itself
        return f"(no message: {type(broken).__name__} while asking for it)"


def own_part(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """The exception with the traceback from the handler's own frames on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(OUR_FRAMES):
        trace = trace.tb_next
    return type(error), error, trace


def _sendable(text: str, keep_end: bool = False) -> str:
    """The text as valid Unicode, cut to what the coordinator keeps: its beginning, or its end."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= ERROR_TEXT_BYTES_MAX:
        return data.decode("utf-8")
    room = ERROR_TEXT_BYTES_MAX - len(CUT.encode())
    kept = (data[-room:] if keep_end else data[:room]).decode("utf-8", "ignore")
    return CUT + kept if keep_end else kept + CUT
