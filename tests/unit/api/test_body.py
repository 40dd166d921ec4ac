"""Bytes become members, or the right refusal: not JSON is 400 wherever it is, everything else is 422."""

from __future__ import annotations

import pytest

from eventjobs.api import members
from eventjobs.api.body import parse
from eventjobs.api.faults import Faults
from eventjobs.domain.limits import BATCH_JOBS_MAX, FAULTS_REPORTED_MAX


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"[1",
        b'{"a":1} x',
        b'{"a":1,}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":1.}',
        b'{"a":+1}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00\\ud800"}',
        b'{"\\ud800":1}',
        b'{"a":"\\x"}',
        b'{"a":"\n"}',
        b'{"a":"\xff"}',
        b'{"a":["\xed\xa0\x80"]}',
        b'{"\xff":1}',
        b'[1, "\xff"]',
        b"\xef\xbb\xbf{}",
        b"{'a':1}",
        '{"a":1}'.encode("utf-16"),
        b'[{"a": nul}]',
    ],
)
def test_what_is_no_json_text_is_malformed(problem_of, text):
    """Bad UTF-8, lone surrogates, NaN and broken syntax are told as such, at any depth and in any type of body."""
    problem = problem_of(parse, text, Faults())
    assert problem.code == "malformed_json"
    assert problem.detail.startswith("the body ")


@pytest.mark.parametrize("text", [b"null", b"[]", b'"x"', b"1", b"true", b"[{}]", b"1e400"])
def test_a_body_is_an_object(faults_of, text):
    """Other JSON is well-formed, but no request."""
    assert faults_of(parse, text, Faults()) == {"": "must be a JSON object"}


@pytest.mark.parametrize("text", [b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"[" * 50_000])
def test_a_bottomless_body_is_refused_with_the_limit(faults_of, text):
    """Nesting that no parser follows is told as a fault of the whole body."""
    assert faults_of(parse, text, Faults()) == {"": "is nested deeper than 128 levels"}


def test_faults_found_before_are_told_with_those_of_the_body(faults_of):
    """A wrong header is not hidden by a body of the wrong type."""
    faults = Faults()
    faults.add("Eventjobs-Actor", "must be shorter")
    assert set(faults_of(parse, b"[]", faults)) == {"Eventjobs-Actor", ""}


def test_a_list_of_objects(faults_of):
    """What is no object is named by its place; items beyond the limit are not looked at."""
    faults = Faults()
    body = parse(b'{"jobs":[{"a":1},2,{"b":[]},null,[]]}', faults)
    assert len(body.require_objects("jobs", BATCH_JOBS_MAX)) == 2
    assert set(faults_of(faults.refuse_if_any)) == {"jobs[1]", "jobs[3]", "jobs[4]"}

    faults = Faults()
    assert len(parse(b'{"jobs":[%s]}' % b",".join([b"{}"] * 1001), faults).require_objects("jobs", 1000)) == 1000
    assert set(faults_of(faults.refuse_if_any)) == {"jobs"}


@pytest.mark.parametrize("text", [b"{}", b'{"jobs":null}', b'{"jobs":{}}', b'{"jobs":"x"}'])
def test_a_missing_list_is_a_fault(faults_of, text):
    """Absent, null, or no list."""
    faults = Faults()
    assert parse(text, faults).require_objects("jobs", 1000) == []
    assert set(faults_of(faults.refuse_if_any)) == {"jobs"}


def test_a_refusal_does_not_grow_without_bound(problem_of):
    """Beyond a bound the faults are only counted."""
    faults = Faults()
    for number in range(FAULTS_REPORTED_MAX + 5):
        faults.add(f"f{number}", "is wrong")
    errors = problem_of(faults.refuse_if_any).more["errors"]
    assert len(errors) == FAULTS_REPORTED_MAX + 1
    assert errors[-1] == {"path": "", "message": "and 5 faults more"}


@pytest.mark.parametrize("value", [b"[%s1]" % (b"1," * 500_000), b'{"a":[%s1]}' % (b"[]," * 500_000)])
def test_lists_and_objects_are_no_scalars_and_are_not_made(faults_of, enqueue, monkeypatch, value):
    """A field that takes a number or a text is refused by the first character of what stands there."""
    monkeypatch.setattr(members, "_value", None)
    assert set(faults_of(enqueue, b'{"payload":1,"kind":%s,"priority":%s}' % (value, value))) == {"kind", "priority"}


@pytest.mark.parametrize("item", [b"{}", b'{"a":"1,2,3"}', b"[1,[2,3]]"])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 50_000])
def test_no_more_items_of_a_list_are_made_than_are_allowed(monkeypatch, item, number):
    """Commas within the items do not count; what is beyond is told, and passed over."""
    made, all_items = [], members._items_up_to
    monkeypatch.setattr(members, "_items_up_to", lambda *given: made.append(all_items(*given)) or made[-1])
    faults = Faults()
    parse(b'{"jobs":[%s]}' % b" , ".join([item] * number), faults).require_objects("jobs", 4)
    assert [bytes(each) for each in made[0]] == [item] * min(number, 5)
    told = [] if number <= 4 else [{"path": "jobs", "message": "must have 0 to 4 items; it has more"}]
    faults.add("", "so that there is one")
    errors = faults.refusal().problem.more["errors"]
    assert [each for each in errors if each["path"] == "jobs"] == told


def test_no_more_members_are_made_than_faults_are_listed(faults_of, monkeypatch):
    """Colons in a content are no members, however many."""
    many = b",".join(b'"%d":1' % n for n in range(FAULTS_REPORTED_MAX + 1))
    jobs = parse(b'{"jobs":[{"payload":{%s}}]}' % many, Faults()).require_objects("jobs", 1)
    assert jobs[0].content("payload") == b"{%s}" % many
    monkeypatch.setattr(members, "_object", None)
    told = faults_of(parse, b"{%s}" % many, Faults())
    assert told == {"": "has too many members that are no fields of this object"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"a":1,"a":1}', "a"),
        (b'{"a":1,"a":12}', "a"),
        (b'{"a":12,"a":1}', "a"),
        (b'{"b":1,"a":[1,{"a":2}],"a":[1]}', "a"),
        (b'{ "b" : 1, "a": "x", "a": "xy" }', "a"),
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"\\u0061":1,"b":"a","a":2}', "a"),
        (' {"\u00e4": "\u00f6", "\u00e4": null}'.encode(), "\u00e4"),
        (b'{"a\\"":1,"a\\"":2}', 'a"'),
        (b'{"":1,"":2}', ""),
    ],
)
def test_a_member_that_is_given_twice_is_a_fault(faults_of, text, path):
    """Nobody can know which one was meant; with any space, escapes and values."""

    def read(text, faults):
        parse(text, faults)
        faults.refuse_if_any()

    assert faults_of(read, text, Faults()) == {path: "is given twice"}


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b' { "a" : 1 , "b" : { "a" : 1 , "a" : 2 } } ',
        b'{"a":"\\"a\\":1,","b":[],"\\u0063":"c"}',
        b'{"a": 1.50, "A": "1", "aa": -0e1, "b": "}"}',
    ],
)
def test_members_that_only_look_alike_are_none(faults_of, text):
    """What is inside a value, in a text or in an object, is not a member."""

    def read(text, faults):
        parse(text, faults)
        faults.add("", "has no other fault")
        faults.refuse_if_any()

    assert faults_of(read, text, Faults()) == {"": "has no other fault"}
