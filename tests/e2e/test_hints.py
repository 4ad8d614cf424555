"""Hints hold commands and options that a shell takes as they are printed."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import zipfile

import pytest

from e2e.tools import Done, Shell
from rowfall.core.errors import UsageError


def given(done: Done, flag: str) -> list[str]:
    """The first option of a hint, as a shell reads it."""
    hint = done.talk.partition("hint: ")[2]
    found = re.search(rf"{flag} ('(?:[^']|'\"'\"')*'|[^\s']+)", hint)
    assert found, done.talk
    return shlex.split(f"{flag} {found[1]}")


@pytest.mark.parametrize("name", ["p", "my p", "it's", "a`b", "$HOME"])
@pytest.mark.sampled(1)
def test_a_json_column_of_any_name(shell: Shell, name: str) -> None:
    rows = [json.dumps({"id": n, name: {"a": n}}) for n in range(2)]
    shell.write("a.jsonl", "\n".join(rows) + "\n")
    shell.write("b.jsonl", json.dumps({"id": 3, name: {"a": 3, "c": "new"}}) + "\n")
    shell.ok("load", "a.jsonl", "--table", "t")
    failed = shell.ends(1, "load", "b.jsonl", "--table", "t")
    json_type = given(failed, "--type")
    shell.ok("load", "*.jsonl", "--table", "u", *json_type)
    assert shell.row("SELECT count() FROM u") == [3]
    shell.ok("load", "b.jsonl", "--table", "t", "--widen", *json_type)
    assert shell.row("SELECT count() FROM t") == [3]


def test_values_that_are_no_objects_are_not_loaded_as_json(shell: Shell) -> None:
    """JSON was named for a number, which the type does not take."""
    shell.write("a.jsonl", '{"id": 1, "v": [1]}\n{"id": 2, "v": 5}\n')
    failed = shell.ends(1, "load", "a.jsonl", "--table", "t", "--type", "v Array(Dynamic)")
    assert "JSON with" not in failed.talk
    shell.ok("load", "a.jsonl", "--table", "u", *given(failed, "--type"))
    assert shell.rows("SELECT v FROM u ORDER BY id") == [["[1]"], [5]]


def test_rows_that_cannot_be_checked_are_not_left_out(shell: Shell) -> None:
    shell.write("a.tsv", "1\t[1]\n2\tabc\n")
    typed = ("--table", "t", "--schema", "id UInt8, v Array(Dynamic)")
    failed = shell.ends(1, "load", "a.tsv", *typed)
    assert "--max-errors" not in failed.talk
    shell.ends(2, "load", "a.tsv", *typed, "--max-errors", "1")


def test_names_with_blanks_and_quotes(shell: Shell) -> None:
    shell.write("a.csv", "id,it's one,b\n1,2,3\n2,3,4\n")
    failed = shell.ends(2, "load", "a.csv", "--rename", "b=it's one")
    assert given(failed, "--skip") == ["--skip", "it's one"]
    shell.ok("load", "a.csv", *given(failed, "--skip"))
    shell.write("c.csv", "my id,n\n" + "1,2\n" * 20_000 + "x,2\n")
    failed = shell.ends(1, "load", "c.csv")
    shell.ok("load", "c.csv", "--table", "d", *given(failed, "--type"))
    assert shell.row("SELECT count() FROM d") == [20_001]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["my host:8123", "10.0.0.1", "a 'b'.xlsx"])
def test_targets_that_look_like_something_else(shell: Shell, target: str) -> None:
    shell.write("a.csv", "id,n\n1,2\n2,3\n")
    failed = shell.ends(2, "load", "a.csv", "--to", target)
    folder = shlex.split(re.findall(r"A folder of that name: (.*)$", failed.talk)[0])
    shell.ok("load", "a.csv", *folder)
    assert shell.ok("query", "SELECT count() FROM a", *folder).out == "count()\n2\n"


def test_archives_are_named_as_they_are(shell: Shell) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.csv", "id,n\n1,2\n")
    shell.write("it's all.csv", data.getvalue())
    failed = shell.ends(4, "load", "it's all.csv")
    command = re.findall(r"unpack it first: unzip (.*) -d FOLDER$", failed.talk)[0]
    with zipfile.ZipFile(shlex.split(command)[0]) as archive:
        assert archive.namelist() == ["a.csv"]


def test_an_encoding_that_is_not_read(shell: Shell) -> None:
    shell.write("my file.csv", "id,name\n1,Müller\n".encode("utf-32"))
    failed = shell.ends(4, "load", "my file.csv")
    convert = re.findall(r"Convert it: (.*) \| rowfall load -$", failed.talk)[0]
    done = subprocess.run(shlex.split(convert), capture_output=True, check=True)
    shell.ok("load", "-", "--table", "t", stdin=done.stdout.decode())
    assert shell.rows("SELECT * FROM t") == [[1, "Müller"]]


def test_no_full_stop_behind_a_command() -> None:
    for hint, ready in {
        "Take a hash of it: --shard-key 'cityHash64(a)'.": True,
        "Load what is left with --from earliest.": True,
        "Test it with gzip -t.": True,
        "See its type: rowfall query 'SELECT 1'.": True,
        "Nothing was dropped: rowfall forget ab12_3.": True,
        "Check the names; rowfall query 'SHOW TABLES' lists them.": False,
        "Correct the file.": False,
    }.items():
        shown = UsageError("x", hint=hint).hint
        assert shown == (hint[:-1] if ready else hint)


def test_a_table_for_an_export_is_refused(shell: Shell) -> None:
    refused = shell.ends(2, "load", "generate://trips?rows=9", "--to", "x.csv", "--table", "t")
    assert "--table t names a table" in refused.talk
    shell.ok("load", "generate://trips?rows=9", "--to", "x.csv")
