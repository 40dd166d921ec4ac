"""Write the contract as the JSON that the coordinator serves.

    python specs/openapi_json.py           writes eventjobs/api/openapi.json from specs/openapi.yaml
    python specs/openapi_json.py --check   writes nothing; exit code 1 when the two differ

Needs PyYAML, which the installed package does not: it carries the JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

SOURCE = Path(__file__).with_name("openapi.yaml")
TARGET = Path(__file__).parents[1] / "eventjobs" / "api" / "openapi.json"


def contract_json() -> bytes:
    """The contract in JSON: anchors resolved, order kept, one line."""
    document = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        if TARGET.read_bytes() == contract_json():
            return 0
        print(f"{TARGET} is not what {SOURCE} says; run {Path(__file__).name}", file=sys.stderr)
        return 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    TARGET.write_bytes(contract_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
