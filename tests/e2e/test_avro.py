"""Avro files as other programs write them: unions of null and array, which no Nullable holds."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import fastavro
import pytest

from e2e.tools import Shell
from lab.kafka import Registry


def number(value: int) -> bytes:
    """Return a number as Avro writes it, small and not negative."""
    return bytes([value * 2]) if value < 64 else bytes([value * 2 % 128 | 128, value // 64])


def text(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def row(id_: int, tags: list[str] | None, count: int | None) -> bytes:
    found = number(id_)
    if tags is None:
        found += number(0)
    else:
        found += number(1) + (number(len(tags)) if tags else b"") + b"".join(map(text, tags))
        found += number(0)
    return found + (number(0) if count is None else number(1) + number(count))


def file(*rows: bytes) -> bytes:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "count", "type": ["null", "long"]},
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    meta = number(2) + text("avro.schema") + text(schema) + text("avro.codec") + text("null")
    body, sync = b"".join(rows), b"s" * 16
    head = b"Obj\x01" + meta + number(0) + sync
    return head + number(len(rows)) + number(len(body)) + body + sync


GOOD = file(row(1, ["x", "y"], 7), row(2, [], None))
NULL = file(row(3, ["z"], 7), row(4, None, 7))


def test_arrays_that_may_be_null(shell: Shell) -> None:
    shell.write("a.avro", GOOD)
    shell.ok("load", "a.avro", "--table", "t", "--verify")
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, ["x", "y"], 7], [2, [], None]]


@pytest.mark.parametrize("more", [(), ("--max-errors", "1")])
def test_a_null_is_still_no_empty_array(shell: Shell, more: tuple[str, ...]) -> None:
    shell.write("in/a.avro", GOOD)
    shell.write("in/n.avro", NULL)
    done = shell.ends(1, "load", "in/*.avro", "--table", "t", *more)
    assert "n.avro" in done.talk
    assert "a NULL in a column that takes none" in done.talk
    assert shell.row("SELECT countIf(id > 2) FROM t") == [0]


def test_nor_is_a_null_a_zero(shell: Shell) -> None:
    shell.write("a.avro", GOOD)
    shell.ends(1, "load", "a.avro", "--table", "t", "--type", "count Int64")
    assert shell.row("SELECT count() FROM t") == [0]


@pytest.mark.parametrize(
    ("type_", "helps"), [("Array(Nullable(Int64))", True), ("Array(Int64)", False)]
)
def test_empty_lists_are_named_where_they_load_the_file(
    shell: Shell, type_: str, helps: bool
) -> None:
    """The option was named for any NULL list: pasted, the NULL inside of another one stopped it."""
    import fastavro

    lists = {"type": "array", "items": ["null", "long"]}
    fields = [{"name": "id", "type": "long"}, {"name": "l", "type": ["null", lists]}]
    rows = [{"id": 1, "l": [1]}, {"id": 2, "l": None}, {"id": 3, "l": [None]}]
    with (shell.folder / "a.avro").open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)
    given = ("load", "a.avro", "--table", "t", "--type", f"l {type_}")
    refused = shell.ends(1, *given)
    assert "a NULL in a column that takes none" in refused.talk
    assert ("--null-lists empty" in refused.talk) == helps
    shell.ends(0 if helps else 1, *given, "--null-lists", "empty")


def test_a_column_of_nulls_alone(shell: Shell) -> None:
    """The engine gives it a type that no column has, and ended with its own words."""
    fields = [{"name": "id", "type": "long"}, {"name": "n", "type": "null"}]
    schema = {"type": "record", "name": "r", "fields": fields}
    with (shell.folder / "a.avro").open("wb") as out:
        fastavro.writer(out, schema, [{"id": 1, "n": None}, {"id": 2, "n": None}])
    shell.ok("load", "a.avro", "--table", "t", "--verify")
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, None], [2, None]]


TIMES = {
    "time-millis": ("int", 5005, "00:00:05.005"),
    "time-micros": ("long", 5005000, "00:00:05.005000"),
    "local-timestamp-millis": ("long", 5005, "1970-01-01 00:00:05.005"),
    "local-timestamp-micros": ("long", 5005000, "1970-01-01 00:00:05.005000"),
    "timestamp-nanos": ("long", 5005000000, "1970-01-01 00:00:05.005000000"),
    "local-timestamp-nanos": ("long", 5005000000, "1970-01-01 00:00:05.005000000"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("unit", TIMES)
def test_numbers_in_a_unit_of_their_own_are_no_seconds(
    shell: Shell, unit: str, packed: bool
) -> None:
    """1005 milliseconds were stored as 00:16:45 by --type, and in a table with such a column."""
    base, value, shown = TIMES[unit]
    column = {"name": "a", "type": ["null", {"type": base, "logicalType": unit}]}
    schema = json.dumps({"type": "record", "name": "r", "fields": [column]})
    meta = number(1) + text("avro.schema") + text(schema) + number(0)
    left, written = value * 2, b""
    while left > 127:
        left, written = left >> 7, written + bytes([left & 127 | 128])
    body, sync = number(0) + number(1) + written + bytes([left]), b"s" * 16
    data = b"Obj\x01" + meta + sync + number(2) + number(len(body)) + body + sync
    name = "a.avro.gz" if packed else "a.avro"
    shell.write(name, gzip.compress(data) if packed else data)
    digits = len(shown.partition(".")[2])
    exact = f"{'Time64' if unit.startswith('time-') else 'DateTime64'}({digits})"
    for kind in ("DateTime", exact):
        wrong = shell.ends(2, "load", name, "--table", "t", "--type", f"a Nullable({kind})")
        assert f"the numbers of a are {unit} of Avro" in wrong.talk
    found = re.search(r"--select (.*)", wrong.talk)
    assert found is not None
    select = shlex.split(found[1])[0]
    shell.ok("query", "--write", f"CREATE TABLE made (a Nullable({exact})) ORDER BY ()")
    shell.ends(2, "load", name, "--table", "made")
    for table in ("t", "made"):
        shell.ok("load", name, "--table", table, "--select", select)
        assert shell.rows(f"SELECT toString(a) FROM {table} ORDER BY 1") == [[shown], [None]]
    shell.ok("load", name, "--table", "n")
    assert shell.rows("SELECT a FROM n ORDER BY 1") == [[value], [None]]


def test_nor_are_those_of_a_pipe(shell: Shell) -> None:
    schema = {"type": "record", "name": "r", "fields": [
        {"name": "a", "type": {"type": "int", "logicalType": "time-millis"}}]}  # fmt: skip
    path = shell.folder / "a.avro"
    with path.open("wb") as out:
        fastavro.writer(out, schema, [{"a": 5005}])
    command = [sys.executable, "-m", "rowfall", "load", "-", "--table", "t", "--type", "a Time64"]
    env = {**os.environ, "HOME": str(shell.cli.home)}
    with path.open("rb") as given:
        done = subprocess.run(
            command, cwd=shell.folder, env=env, stdin=given, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "the numbers of a are time-millis of Avro" in done.stderr


def times(*units: str) -> dict[str, Any]:
    """A schema with a column for each unit: a, b, and so on."""
    fields = [
        {"name": name, "type": {
            "type": "int" if unit == "time-millis" else "long", "logicalType": unit}}
        for name, unit in zip("abc", units, strict=False)
    ]  # fmt: skip
    return {"type": "record", "name": "r", "fields": fields}


def put_times(shell: Shell, name: str, unit: str, value: int) -> None:
    out = io.BytesIO()
    fastavro.writer(out, times(unit), [{"a": value}])
    packed = name.endswith(".gz")
    shell.write(name, gzip.compress(out.getvalue()) if packed else out.getvalue())


def test_files_whose_times_count_other_units(shell: Shell) -> None:
    """The reader puts the numbers of each file into a column: 5.005 s in ms were 5.005 ms in us."""
    for at in range(10):  # some of which are in no sample
        unit, value = ("timestamp-millis", 5005) if at == 8 else ("timestamp-micros", 5005000)
        put_times(shell, f"in/{at}.avro", unit, value)
    done = shell.ends(1, "load", "in", "--table", "t")
    assert "8.avro" in done.talk
    assert "a is timestamp-millis instead of timestamp-micros" in done.talk
    assert shell.row("SELECT count(), toString(any(a)) FROM t") == [9, "1970-01-01 00:00:05.005000"]


def test_units_of_files_of_which_some_are_packed(shell: Shell) -> None:
    put_times(shell, "in/a.avro", "time-millis", 5005)
    put_times(shell, "in/b.avro.gz", "time-millis", 5005)
    done = shell.ends(2, "load", "in", "--table", "t", "--type", "a Time64")
    assert "the numbers of a are time-millis of Avro" in done.talk


def test_numbers_that_are_selected_as_they_are(shell: Shell) -> None:
    """With --select whatever was a number was taken for seconds."""
    put_times(shell, "a.avro", "time-millis", 5005)
    shell.ok("query", "--write", "CREATE TABLE t (a Time64(3)) ORDER BY ()")
    shell.ok("query", "--write", "CREATE TABLE b (b Time64(3)) ORDER BY ()")
    for table, select in (("t", "*"), ("t", "a"), ("b", "a AS b"), ("b", "a b")):
        done = shell.ends(2, "load", "a.avro", "--table", table, "--select", select)
        assert "time-millis of Avro, a unit that Time64(3) does not know" in done.talk
    shell.ok("load", "a.avro", "--table", "t", "--select", "intDiv(a, 1000) AS a")
    assert shell.row("SELECT toString(a) FROM t") == ["00:00:05.000"]


@pytest.mark.long
def test_messages_of_a_registry_in_a_file(shell: Shell) -> None:
    """AvroConfluent: the unit is in the registry, and the engine alone read the file."""
    registry = Registry("user", "pass word")
    address = registry.url.replace("//", "//user:pass%20word@")
    given = ("--format", "AvroConfluent", "--set", f"format_avro_schema_registry_url={address}")
    for name, unit in (("a", "time-millis"), ("b", "time-millis"), ("c", "time-micros")):
        id_ = registry.add(json.dumps(times(unit)))
        value = io.BytesIO()
        fastavro.schemaless_writer(value, times(unit), {"a": 5005})
        shell.write(f"in/{name}.data", b"\0" + id_.to_bytes(4, "big") + value.getvalue())
    for more in (("--type", "a Time64(3)"), ("--schema", "a DateTime")):
        done = shell.ends(2, "load", "in/a.data", *given, "--table", "t", *more)
        assert "in/a.data: the numbers of a are time-millis of Avro" in done.talk
        assert "pass" not in done.talk
    done = shell.ends(2, "load", "in/a.data", *given, "--table", "t", "--type", "a Time64(3)")
    select = shlex.split(done.talk.partition("--select ")[2].partition("\n")[0])[0]
    shell.ok("load", "in/a.data", *given, "--table", "t", "--select", select)
    assert shell.row("SELECT toString(a) FROM t") == ["00:00:05.005"]
    done = shell.ends(1, "load", "in/*.data", *given, "--table", "n")
    assert "c.data" in done.talk
    assert "a is time-micros instead of time-millis" in done.talk
    assert shell.row("SELECT count(), any(a) FROM n") == [2, 5005]
    registry.close()
