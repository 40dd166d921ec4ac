"""The wire contract as a value, for tests of whatever speaks it: servers, clients, stand-ins."""

from __future__ import annotations

import copy
import json
from importlib import resources


def contract() -> dict:
    """The OpenAPI document that the package carries and the coordinator serves; a new copy at each call."""
    return json.loads(resources.files("eventjobs.api").joinpath("openapi.json").read_bytes())


def closed(document: dict) -> dict:
    """A copy in which no object has members beside those listed.

    The contract lets answers grow, and clients pass over what they do not know. Held against the closed copy, an
    answer with a member that nobody documented is found.
    """
    document = copy.deepcopy(document)
    _close(document["components"])
    _close(document["paths"])
    return document


def _close(node: object) -> None:
    if isinstance(node, list):
        for each in node:
            _close(each)
    elif isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            node.setdefault("additionalProperties", False)
        for name, each in node.items():
            if name not in ("examples", "default"):
                _close(each)
