"""The contract that is served is the one that is written, and it is sound."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import schemathesis

SCRIPT = "openapi_json.py"


def served() -> dict:
    """The contract as the package carries it."""
    return json.loads(resources.files("eventjobs.api").joinpath("openapi.json").read_bytes())


def run(specs: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The script that writes the one from the other, as a process."""
    return subprocess.run([sys.executable, specs / SCRIPT, *arguments], capture_output=True, text=True, timeout=30)


def test_the_package_carries_the_contract_as_written(contract, specs):
    """openapi.json says what openapi.yaml says, byte for byte as the script writes it."""
    assert served() == contract
    assert run(specs, "--check").returncode == 0


def test_a_contract_that_was_changed_alone_is_found(specs, tmp_path):
    """The check fails when the YAML has moved on without the JSON."""
    tree = tmp_path / "specs"
    tree.mkdir()
    (tmp_path / "eventjobs" / "api").mkdir(parents=True)
    for name in ("openapi.yaml", SCRIPT):
        (tree / name).write_bytes((specs / name).read_bytes())
    assert run(tree).returncode == 0
    assert run(tree, "--check").returncode == 0
    with (tree / "openapi.yaml").open("a") as file:
        file.write("x-new: true\n")
    assert run(tree, "--check").returncode == 1


def test_the_contract_is_valid_openapi(contract):
    """The document passes the schema of OpenAPI 3.1, and every reference in it leads somewhere."""
    schema = schemathesis.openapi.from_dict(contract)
    schema.validate()
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == sum(len({"get", "post"} & item.keys()) for item in contract["paths"].values())
    assert [ref for ref in references(contract) if not leads_somewhere(contract, ref)] == []


def test_every_part_of_the_contract_is_used(contract):
    """No schema, response, parameter, header or example lies about without being referred to."""
    used = set(references(contract))
    parts = {f"#/components/{group}/{name}" for group, members in contract["components"].items() for name in members}
    assert parts - used == set()


def test_requests_take_nothing_that_is_not_listed(contract):
    """Every object in a request forbids other members, so that a misspelt one is refused."""
    open_objects = []
    for path, item in contract["paths"].items():
        body = item.get("post", {}).get("requestBody")
        if body is None:
            continue
        schema = body["content"]["application/json"]["schema"]
        open_objects += [f"{path}: {where}" for where in objects_without_a_lid(contract, schema, "body")]
    assert open_objects == []


def references(node: object) -> list[str]:
    """Every $ref below a node."""
    if isinstance(node, list):
        return [ref for each in node for ref in references(each)]
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for each in node.values() for ref in references(each)]
    return []


def resolve(contract: dict, ref: str) -> object:
    """What a reference within the document leads to. Raises KeyError when it leads nowhere."""
    found = contract
    for step in ref.removeprefix("#/").split("/"):
        found = found[step]
    return found


def leads_somewhere(contract: dict, ref: str) -> bool:
    """Whether a reference is one within the document, to something that is there."""
    try:
        return ref.startswith("#/") and resolve(contract, ref) is not None
    except KeyError:
        return False


def objects_without_a_lid(contract: dict, schema: dict, where: str) -> list[str]:
    """Where a schema describes an object and lets unlisted members pass."""
    if "$ref" in schema:
        return objects_without_a_lid(contract, resolve(contract, schema["$ref"]), where)
    found = [where] if schema.get("type") == "object" and schema.get("additionalProperties") is not False else []
    for name, inner in schema.get("properties", {}).items():
        found += objects_without_a_lid(contract, inner, f"{where}.{name}")
    for inner in [*schema.get("oneOf", []), *schema.get("anyOf", []), *filter(None, [schema.get("items")])]:
        found += objects_without_a_lid(contract, inner, where)
    return found


def test_no_text_of_the_contract_was_taken_for_members():
    """A comma in a text without quotes would end it and make a member of the rest: no member's name has a space."""

    def names(value: object) -> list[str]:
        if isinstance(value, dict):
            return [*value, *(name for each in value.values() for name in names(each))]
        return [name for each in value for name in names(each)] if isinstance(value, list) else []

    assert [name for name in names(served()) if " " in name] == []
