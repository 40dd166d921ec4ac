"""What the application carries for its handlers, under typed keys."""

from __future__ import annotations

import asyncio

from aiohttp import web

from eventjobs.api.edge import Edge
from eventjobs.api.render_proofs import Notes
from eventjobs.coordinator.coordinator import Coordinator

COORDINATOR = web.AppKey("COORDINATOR", Coordinator)
EDGE = web.AppKey("EDGE", Edge)
ARRIVING = web.AppKey("ARRIVING", set[asyncio.Timeout])
"""The patience with each body that is still arriving."""
NOTES = web.AppKey("NOTES", Notes)
