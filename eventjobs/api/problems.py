"""Problems: refusals as RFC 9457 documents, each with a code that clients may rely on."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web
from attrs import field, frozen

from eventjobs.domain.rejections import Rejection

CONTENT_TYPE = "application/problem+json"

STATUS_AND_TITLE: dict[str, tuple[int, str]] = {
    "malformed_json": (400, "Bad Request"),
    "not_found": (404, "Not Found"),
    "job_not_found": (404, "Not Found"),
    "method_not_allowed": (405, "Method Not Allowed"),
    "stale_token": (409, "Conflict"),
    "lease_expired": (409, "Conflict"),
    "illegal_transition": (409, "Conflict"),
    "idempotency_key_reused": (409, "Conflict"),
    "too_large": (413, "Content Too Large"),
    "unsupported_media_type": (415, "Unsupported Media Type"),
    "invalid_request": (422, "Unprocessable Content"),
    "internal": (500, "Internal Server Error"),
    "not_supported": (501, "Not Implemented"),
    "overloaded": (503, "Service Unavailable"),
    "shutting_down": (503, "Service Unavailable"),
    "storage_full": (507, "Insufficient Storage"),
}
"""The HTTP status of every code, and that status in words."""


@frozen
class Problem:
    """Why a request was refused. `more` are members beside those every problem has; `headers` go with the answer."""

    code: str
    detail: str
    more: Mapping[str, object] = field(factory=dict)
    headers: Mapping[str, str] = field(factory=dict)

    @property
    def status(self) -> int:
        return STATUS_AND_TITLE[self.code][0]

    def document(self) -> dict[str, object]:
        """The problem as JSON members; it needs no type of its own, as the code says all."""
        status, title = STATUS_AND_TITLE[self.code]
        document = {"type": "about:blank", "title": title, "status": status, "code": self.code, "detail": self.detail}
        return document | self.more

    def response(self) -> web.Response:
        return web.Response(
            body=orjson.dumps(self.document()), status=self.status, content_type=CONTENT_TYPE, headers=self.headers
        )


class Refused(Exception):
    """Ends a request early; the application answers with the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def of_rejection(rejection: Rejection, **more: object) -> Problem:
    """The problem that tells of a rejection."""
    return Problem(rejection.code.value, rejection.message, more)


RETRY_SECONDS = 1
"""After how many seconds asking again makes sense where nothing better is known."""


def retry_later(code: str, detail: str, seconds: int) -> Problem:
    """A 503 that says after how many seconds asking again makes sense."""
    return Problem(code, detail, headers={"Retry-After": str(seconds)})
