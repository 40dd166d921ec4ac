"""Histories: what real clients asked and were told, and whether it can have been true.

    recorder = Recorder()
    ...                                             # RecordingClient: each call and its return are noted
    for history in recorder.histories():
        check(history, recorder.tolerance())        # raises IllegalHistory with the shortest story that cannot be

Each job's history must have a legal order: every answered operation takes effect at one moment between its call and
its return, one after the other, as the lifecycle's table says (`specs/lifecycle.md`, written down once more in
`table`; nothing here uses the rules under test). An operation whose answer was lost may have happened at any time
after its call, or never.
"""

from eventjobs.testing.histories.clients import RecordingClient
from eventjobs.testing.histories.explain import IllegalHistory, check
from eventjobs.testing.histories.logged import differences
from eventjobs.testing.histories.operations import Answer, Ask, History, Lost, Operation, Refusal
from eventjobs.testing.histories.recorder import Recorder
from eventjobs.testing.histories.search import Undecided, search

__all__ = [
    "Answer",
    "Ask",
    "History",
    "IllegalHistory",
    "Lost",
    "Operation",
    "Recorder",
    "RecordingClient",
    "Refusal",
    "Undecided",
    "check",
    "differences",
    "search",
]
