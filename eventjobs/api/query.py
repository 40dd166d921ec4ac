"""Query parameters: read like the fields of a body. Unknown ones and those given twice are faults."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web

from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.values import Check

T = TypeVar("T")


class Query:
    """The parameters of one request. What is wrong with them gathers in `faults`, the parameter's name as path."""

    def __init__(self, request: web.Request, faults: Faults) -> None:
        self._given: dict[str, list[str]] = {}
        self._faults = faults
        if request.query_string:
            for parameter, value in request.query.items():
                self._given.setdefault(parameter, []).append(value)

    def read(self, parameter: str, check: Check[T], default: T | None = None) -> T | None:
        """The parameter's value, `default` when it is not given; None after a fault."""
        values = self._given.pop(parameter, None)
        if values is None:
            return default
        if len(values) > 1:
            self._faults.add(parameter, "must be given once")
            return None
        try:
            return check(values[0])
        except Unfit as unfit:
            self._faults.add(parameter, str(unfit))
            return None

    def end(self) -> None:
        """Say that every parameter was asked for: what is left is unknown."""
        for parameter in self._given:
            self._faults.add(parameter, "is no parameter of this request")
