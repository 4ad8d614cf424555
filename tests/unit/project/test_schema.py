"""The JSON Schema of rowfall.toml, checked by the library that editors' checks are like."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from rowfall.project.file import EXAMPLE, ProjectFile
from rowfall.project.schema import json_schema
from unit.project.refused import REFUSED

DOCS = Path(__file__).parents[3] / "docs"
_FENCE = re.compile(r"^```toml\n(.*?)^```$", re.M | re.S)
EXAMPLES = [
    (page.name, found)
    for page in sorted(DOCS.rglob("*.md"))
    for found in _FENCE.findall(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def checker() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("case", [name for name, (_, _, seen) in REFUSED.items() if seen])
def test_the_schema_refuses_what_the_reader_refuses(
    checker: jsonschema.Draft202012Validator, case: str
) -> None:
    assert not checker.is_valid(tomllib.loads(REFUSED[case][0]))


@pytest.mark.parametrize("case", [name for name, (_, _, seen) in REFUSED.items() if not seen])
def test_what_only_the_reader_sees(checker: jsonschema.Draft202012Validator, case: str) -> None:
    """So that the list says it where the schema learns more."""
    assert checker.is_valid(tomllib.loads(REFUSED[case][0]))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize(("page", "text"), [*EXAMPLES, ("hints", EXAMPLE), ("all", """
[defaults]
memory = 4294967296
to = "prod"
[connections.prod]
uri = "clickhouse://me:env:PW@h/db"
password = "cmd:pass show prod"
set = { max_threads = 8, x = true }
[profiles.old]
to = "x"
password_file = "pw"
force = true
[loads.a-b]
source = ["a.csv", "kafka://h/t?sasl.password=env:PW"]
order-by = "id"

[loads.c]
connection = "prod"
from = "earliest"
header = true
dates = "dmy"
max_error_ratio = 0
type = { id = "UInt64" }
skip = "a"
needs = "a-b"
before = []
after = [{ sql = ["SELECT 1", "SELECT 2"], timeout = 30 }, { command = ["a"], timeout = "1.5h" }]
[pipelines.d]
source = "kafka://h/t"
on_error = { command = ["a", "b"] }
""")])  # fmt: skip
def test_the_schema_takes_what_the_reader_takes(
    checker: jsonschema.Draft202012Validator, tmp_path: Path, page: str, text: str
) -> None:
    ProjectFile(tmp_path / "rowfall.toml", text)
    checker.validate(tomllib.loads(text))
