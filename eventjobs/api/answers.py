"""Answers that are not refusals: JSON documents."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from aiohttp import web

CONTENT_TYPE = "application/json"


def answer(document: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """The document as the body of an answer."""
    return web.Response(body=orjson.dumps(document), status=status, content_type=CONTENT_TYPE, headers=headers)
