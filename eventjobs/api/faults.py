"""Faults: everything that is wrong with one request, gathered before it is refused."""

from __future__ import annotations

from eventjobs.api.problems import Problem, Refused
from eventjobs.domain.limits import FAULTS_REPORTED_MAX


class Unfit(ValueError):
    """A value that is not what its field takes. The text says what the field takes."""


class Faults:
    """The faults of one request, in the order in which they were found."""

    def __init__(self) -> None:
        self._errors: list[dict[str, str]] = []
        self._left_out = 0

    def add(self, path: str, message: str) -> None:
        """`path` looks like `jobs[1].kind`; "" is the whole body. Header and query faults have their name as path."""
        if len(self._errors) < FAULTS_REPORTED_MAX:
            self._errors.append({"path": path, "message": message})
        else:
            self._left_out += 1

    def leave_out(self, number: int) -> None:
        """Count faults that are not listed, after as many as are listed at most."""
        self._left_out += number

    def refuse_if_any(self) -> None:
        """Raise the refusal when there is anything to refuse for."""
        if self._errors:
            raise self.refusal()

    def refusal(self) -> Refused:
        """The refusal (422) that lists all of them."""
        errors = self._errors
        if self._left_out:
            errors = [*errors, {"path": "", "message": f"and {self._left_out} faults more"}]
        first = errors[0]
        detail = f"the request has {len(errors)} faults"
        if len(errors) == 1:
            detail = f"{first['path'] or 'the body'}: {first['message']}"
        return Refused(Problem("invalid_request", detail, {"errors": errors}))
