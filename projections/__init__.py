"""Read models: what is asked of the log often, derived by pure rules. Each can be thrown away and folded anew.

A read model is a `Projection` (its name, version, tables and rule) and the functions that query its tables.
"""

from eventjobs.domain.projection import Projection
from eventjobs.projections.dead_list import DeadList
from eventjobs.projections.history import History
from eventjobs.projections.listing import Listing
from eventjobs.projections.stats import Statistics

READ_MODELS: tuple[Projection, ...] = (Listing(), DeadList(), History(), Statistics())
"""Every read model an engine has to keep."""

__all__ = ["READ_MODELS"]
