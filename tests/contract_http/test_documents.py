"""What specs/ says about events and their bytes is what the code does."""

from __future__ import annotations

import base64
import json
import re

import pytest

from eventjobs.domain.events import EVENT_TYPES
from eventjobs.domain.job import State
from eventjobs.domain.value import field_names
from eventjobs.projections import READ_MODELS
from eventjobs.store.codec import decode_record, encode_record
from eventjobs.store.indexes import INDEXES
from eventjobs.store.merkle import Frontier, leaf_hash


@pytest.fixture(scope="module")
def sections(specs) -> dict[str, str]:
    """The sections of events.md by their headings."""
    parts = re.split(r"^## (.*)\n", (specs / "events.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def example(section: str) -> bytes:
    """The record a section shows."""
    return re.search(r"```json\n(.*)\n```", section)[1].encode()


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_is_described_field_by_field(sections, name):
    """The catalogue has a section for each event, whose table lists the fields of its class in their order."""
    rows = re.findall(r"^\| `(\w+)` \|", sections[name], flags=re.MULTILINE)
    assert rows == list(field_names(EVENT_TYPES[name]))


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_example_is_a_record_as_it_is_stored(sections, name):
    """The record shown for an event is read by the codec and is written by it in the same bytes."""
    text = example(sections[name])
    record = decode_record(text)
    assert record.event.type == name
    assert encode_record(record) == text


def test_the_tree_over_the_examples_has_the_roots_given(sections, specs):
    """The roots in log-format.md follow from the records in events.md."""
    examples = {json.loads(example(sections[name]))["position"]: example(sections[name]) for name in EVENT_TYPES}
    document = (specs / "log-format.md").read_text(encoding="utf-8")
    tree = Frontier()
    for position in (1, 2, 3, 4):
        tree.append(leaf_hash(examples[position]))
        if position > 2:
            assert f"`{base64.b64encode(tree.root()).decode()}`" in document


def test_every_projection_and_table_is_described(specs):
    """log-format.md lists the projections an engine keeps and their tables, and no others."""
    document = (specs / "log-format.md").read_text(encoding="utf-8").partition("| projection | table")[2]
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| `(\w+)` \|", document, flags=re.MULTILINE)
    kept = [
        (projection.name if index == 0 else "", table.name)
        for projection in (*INDEXES, *READ_MODELS)
        for index, table in enumerate(projection.tables)
    ]
    assert sorted(rows) == sorted(kept)


def test_the_lifecycle_names_the_states_and_events_of_the_core(specs):
    """lifecycle.md has a row for each state, and one for each event saying what it does to the job."""
    document = (specs / "lifecycle.md").read_text(encoding="utf-8")
    states, _, rest = document.partition("## What each command does")
    assert re.findall(r"^\| `(\w+)` \|", states, flags=re.MULTILINE) == [state.value for state in State]
    effects = rest.partition("## What each event does to the job")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (\w+) \|", effects, flags=re.MULTILINE)) - {"event"} == set(EVENT_TYPES)
