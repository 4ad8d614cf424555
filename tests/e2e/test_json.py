"""JSON as people have it: event archives, keys that vary, mixed types, pretty-printed files."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter

import pytest

from e2e.events import write_archive
from e2e.tools import Shell
from rowfall.decoder import installed

MODES = ("auto", "always", "never")
# What is taken by default is "always" for all of these.
EACH_MODE = ["never", "always", pytest.param("auto", marks=pytest.mark.long)]


@pytest.fixture(autouse=True)
def _installed() -> None:
    assert installed.program(), "make test builds it: make decoder"


def types(shell: Shell, to: str, table: str = "t") -> dict[str, str]:
    """The columns of a table."""
    text = f"SELECT name, type FROM system.columns WHERE table = '{table}'"
    rows = shell.ok("query", text, "--to", to, "--format", "JSONCompact").document["data"]
    return {str(name): str(type_) for name, type_ in rows}


def rows(shell: Shell, to: str, query: str) -> list[list[object]]:
    """What a query gives."""
    found: list[list[object]] = shell.ok(
        "query", query, "--to", to, "--format", "JSONCompact"
    ).document["data"]  # fmt: skip
    return found


def test_an_event_archive_loads_without_options(shell: Shell) -> None:
    events = write_archive(shell.folder / "in", files=3, each=3_000)
    assert len({e["type"] for e in events}) >= 8
    checks = set()
    for mode in MODES:
        shell.ok("load", "in/*.json.gz", "--table", "t", "--to", mode, "--decoder", mode)
        found = types(shell, mode)
        assert found["payload"] == "JSON"
        assert found["org"] == "Nullable(JSON)"
        assert found["actor"].startswith("Tuple(")
        # The hash of a JSON column depends on the paths of its part; its text does not.
        hashes = "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM t"
        checks.add(shell.ok("query", hashes, "--to", mode).out)
    assert len(checks) == 1
    # Queries on nested keys, against the events themselves.
    actions = Counter(e["payload"]["action"] for e in events if "action" in e["payload"])
    found_actions = rows(
        shell, "auto",
        "SELECT payload.action::String AS a, toInt32(count()) FROM t "
        "WHERE isNotNull(payload.action) GROUP BY a ORDER BY a",
    )  # fmt: skip
    assert found_actions == [[k, n] for k, n in sorted(actions.items())]
    pushed = sum(e["payload"]["size"] for e in events if e["type"] == "PushEvent")
    assert rows(
        shell, "auto",
        "SELECT toInt32(sum(payload.size.:Int64)), toInt32(sum(length(payload.commits[]))) "
        "FROM t WHERE type = 'PushEvent'",
    ) == [[pushed, pushed]]  # fmt: skip
    titles = Counter(e["payload"]["issue"]["title"] for e in events if "issue" in e["payload"])
    found_titles = rows(
        shell, "auto",
        "SELECT payload.issue.title::String AS t, toInt32(count()) FROM t "
        "WHERE isNotNull(payload.issue.number) GROUP BY t",
    )  # fmt: skip
    assert Counter({str(t): n for t, n in found_titles}) == titles
    assert rows(shell, "auto", "SELECT toInt32(count()) FROM t WHERE isNull(org)") == [[6_000]]


@pytest.mark.parametrize("mode", EACH_MODE)
@pytest.mark.parametrize(
    ("given", "type_", "wanted"),
    [
        ((), "JSON", [["1", "\\N"], ["\\N", "x"]]),
        (("--type", "p String"), "String", [['{"a":1}', ""], ['{"b":"x"}', ""]]),
        (("--type", "p Map(String, String)"), "Map(String, String)", [["1", ""], ["", "x"]]),
        (("--schema", "id Int64, p JSON"), "JSON", [["1", "\\N"], ["\\N", "x"]]),
    ],
)
@pytest.mark.sampled(1)
def test_a_key_that_comes_later(
    shell: Shell, mode: str, given: tuple[str, ...], type_: str, wanted: list[list[str]]
) -> None:
    shell.write("in.jsonl", '{"id":1,"p":{"a":1}}\n{"id":2,"p":{"b":"x"}}\n')
    shell.ok("load", "in.jsonl", "--table", "t", "--decoder", mode, *given)
    assert types(shell, "rowfall-data")["p"] == type_
    fields = "p['a'], p['b']" if type_.startswith("Map") else "p.a, p.b"
    fields = "p, ''" if type_ == "String" else fields
    out = shell.ok("query", f"SELECT {fields} FROM t ORDER BY id", "--format", "TSVRaw").out
    assert [line.split("\t") for line in out.splitlines()] == wanted


def test_mixed_types_and_deep_objects(shell: Shell) -> None:
    deep = '{"a":' * 22 + "1" + "}" * 22
    shell.write(
        "in.jsonl",
        '{"id":1,"m":1,"n":{"k":1},"d":' + deep + ',"e":[]}\n'
        '{"id":2,"m":"x","n":"none","d":' + deep + ',"e":[{"a":1}]}\n'
        '{"id":3,"m":true,"n":[1],"d":{},"e":["x"]}\n',
    )
    plan = " ".join(shell.ok("plan", "in.jsonl", "--table", "t").out.split())
    assert "integers and true or false and text mixed: kept as text" in plan
    for mode in MODES:
        shell.ok("load", "in.jsonl", "--table", "t", "--decoder", mode, "--to", mode)
        assert types(shell, mode) | {"id": ""} == {
            "id": "", "m": "String", "n": "String", "d": "JSON", "e": "String"
        }  # fmt: skip
        out = shell.ok("query", "SELECT m, n, e, d FROM t ORDER BY id", "--to", mode,
                       "--format", "TSVRaw").out  # fmt: skip
        assert out.splitlines() == [
            '1\t{"k":1}\t[]\t' + deep,
            'x\tnone\t[{"a":1}]\t' + deep,
            'true\t[1]\t["x"]\t{}',
        ]


@pytest.mark.long
def test_known_types_need_no_inference(shell: Shell) -> None:
    """Mixed types used to fail whatever was said about them."""
    shell.write("in.jsonl", '{"id":1,"v":1}\n{"id":2,"v":"x"}\n{"id":3,"v":{"a":[1,"y"]}}\n')
    shell.ok("load", "in.jsonl", "--table", "t", "--type", "v String", "--to", "a")
    shell.ok("load", "in.jsonl", "--table", "t", "--schema", "id Int64, v String", "--to", "b")
    shell.ok("query", "TRUNCATE TABLE t", "--write", "--to", "b")
    shell.write("again.jsonl", (shell.folder / "in.jsonl").read_text())
    shell.ok("load", "again.jsonl", "--table", "t", "--to", "b")
    for to in ("a", "b"):
        out = shell.ok("query", "SELECT v FROM t ORDER BY id", "--to", to, "--format", "TSVRaw").out
        assert out == '1\nx\n{"a":[1,"y"]}\n'


def test_another_key_in_a_stable_object_is_an_error_with_a_hint_that_works(shell: Shell) -> None:
    shell.write("a.jsonl", '{"id":1,"p":{"a":1}}\n{"id":2,"p":{"a":2}}\n')
    shell.write("b.jsonl", '{"id":3,"p":{"a":3,"c":"new"}}\n')
    shell.ok("load", "a.jsonl", "--table", "t")
    failed = shell.ends(1, "load", "b.jsonl", "--table", "t")
    assert "Load it as JSON with --widen --type 'p JSON'" in failed.talk
    shell.ok("load", "b.jsonl", "--table", "t", "--widen", "--type", "p JSON")
    assert shell.ok("query", "SELECT p.a, p.c FROM t ORDER BY id", "--format", "TSV").out == (
        "1\t\\N\n2\t\\N\n3\tnew\n"
    )


def test_another_key_behind_the_sample_names_its_line(shell: Shell) -> None:
    shell.write("a.jsonl", '{"p":{"a":1}}\n' * 25_000 + '{"p":{"b":1}}\n')
    shell.write("b.jsonl", '{"p":{"a":2}}\n')
    failed = shell.ends(1, "load", "a.jsonl", "b.jsonl", "--table", "t")
    assert 'a.jsonl line 25001 column "p": "{"b":1}" does not fit' in failed.talk
    assert "Load it as JSON with --widen --type 'p JSON'" in failed.talk
    shell.ok("load", "a.jsonl", "b.jsonl", "--table", "t", "--widen", "--type", "p JSON")
    out = shell.ok("query", "SELECT count(), sum(p.b::Int64) FROM t", "--format", "TSV").out
    assert out == "25002\t1\n"


def test_a_key_that_stands_twice_is_kept_as_text(shell: Shell) -> None:
    shell.write("a.jsonl", '{"p":{"a":1}}\n')
    shell.write("b.jsonl", '{"p":{"a":3,"c":1,"c":2}}\n')
    shell.ok("load", "a.jsonl", "--table", "t")
    failed = shell.ends(1, "load", "b.jsonl", "--table", "t")
    assert "Load it with --widen --type 'p String'" in failed.talk
    shell.ok("load", "b.jsonl", "--table", "t", "--widen", "--type", "p String")


def test_bad_rows_of_json_columns(shell: Shell) -> None:
    lines = ['{"id":1,"p":{"a":1}}', '{"id":2,"p":{"b":"x"}}', '{"id":3,"p":[1]}']
    shell.write("in.jsonl", "\n".join(lines) + "\n")
    failed = shell.ends(1, "load", "in.jsonl", "--table", "t", "--type", "p JSON")
    assert 'line 3 column "p": "[1]" does not fit JSON' in failed.talk
    shell.ok("load", "in.jsonl", "--table", "t", "--type", "p JSON", "--max-errors", "1")
    assert shell.ok("query", "SELECT p FROM t ORDER BY id", "--format", "TSVRaw").out == (
        '{"a":1}\n{"b":"x"}\n'
    )


def test_exports_keep_objects_as_text(shell: Shell) -> None:
    shell.write("in.jsonl", '{"id":1,"p":{"a": 1.0, "n":null}}\n{"id":2,"p":{"b":"x"}}\n')
    shell.ok("load", "in.jsonl", "--to", "out.parquet")
    shell.ok("load", "out.parquet", "--table", "t")
    found = rows(shell, "rowfall-data", "SELECT p FROM t ORDER BY id")
    assert [json.loads(str(p)) for (p,) in found] == [{"a": 1.0, "n": None}, {"b": "x"}]


PRETTY = '{{\n  "id": {},\n  "p": {{\n    "a": [1,\n 2]\n  }}\n}}'


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", EACH_MODE)
def test_pretty_printed_and_array_files(shell: Shell, mode: str) -> None:
    shell.write("in/pretty.json", "\n".join(PRETTY.format(n) for n in range(3)) + "\n")
    shell.write("in/array.json", "[\n" + ",\n".join(PRETTY.format(n) for n in range(3, 6)) + "]")
    shell.write("in/line.json", '[{"id":6,"p":{"a":[]}},{"id":7,"p":{"a":[3]}}]\n')
    shell.ok("load", "in", "--table", "t", "--decoder", mode)
    assert types(shell, "rowfall-data")["p"] == "Tuple(a Array(Nullable(Int64)))"
    out = shell.ok("query", "SELECT count(), sum(id), sum(length(p.a)) FROM t", "--format", "TSV")
    assert out.out == "8\t28\t13\n"


def test_the_error_in_a_pretty_printed_file_counts_objects(shell: Shell) -> None:
    good = "\n".join(PRETTY.format(n) for n in range(3))
    shell.write("good.json", good)
    shell.ok("load", "good.json", "--table", "t", "--type", "id UInt8")
    shell.write("bad.json", good + "\n" + PRETTY.format(300))
    failed = shell.ends(1, "load", "bad.json", "--table", "t")
    assert "is not a JSON object" not in failed.talk
    assert "bad.json" in failed.talk


@pytest.mark.long
@pytest.mark.parametrize("indent", [None, 1])
def test_a_bad_value_in_an_array(shell: Shell, indent: int | None) -> None:
    """Lines mean nothing there: the row is named, and no hint says to leave it out."""
    values = [{"id": "no" if n == 150 else n, "s": "x"} for n in range(200)]
    shell.write("a.json", json.dumps(values, indent=indent))
    failed = shell.ends(1, "load", "a.json", "--type", "id Int64")
    assert 'a.json row 151 column "id": "no" does not fit Int64' in failed.talk
    assert "--max-errors" not in failed.talk
    failed = shell.ends(4, "load", "a.json", "--type", "id Int64", "--max-errors", "1")
    assert "has no line for each row" in failed.talk
    piped = failed.talk.partition("Give each one: ")[2].partition(" | rowfall load ")
    command = shlex.split(piped[0])
    objects = subprocess.run(command, cwd=shell.folder, capture_output=True, check=True).stdout
    shell.write("lines.ndjson", objects)
    words = piped[2].split("\n")[0].replace("NAME", "t").replace("-errors N", "-errors 1")
    words = words.replace("- ", "lines.ndjson ", 1)
    shell.ok("load", *words.split(), "--type", "id Int64")
    assert shell.row("SELECT count() FROM t") == [199]
