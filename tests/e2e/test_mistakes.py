"""Mistakes of spelling: refused before anything is made, with the name that was meant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from e2e.tools import Shell


@pytest.fixture
def cities(shell: Shell) -> Shell:
    shell.write("a.csv", "id,city\n1,Oslo\n2,Bern\n")
    return shell


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--to localhost", "looks like a server"),
        ("--to out.xlsx", "not a kind of file"),
        ("--table=", "names no table"),
        ("--memory 100TB", "of this machine"),
        ("--files 3", "--files is for files to write"),
        ("--to-format CSV", "--to-format is for files to write"),
    ],
)
def test_nothing_is_made(cities: Shell, options: str, said: str) -> None:
    for command in ("load", "plan"):
        assert said in cities.ends(2, command, "a.csv", *options.split(" ")).talk
    assert [path.name for path in cities.folder.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--order-by", "ctiy", "Maybe you meant: ['city']"),
        ("--where", "ctiy = 1", "Maybe you meant: ['city']"),
        ("--skip", "ctiy", "Did you mean city?"),
        ("--rename", "ctiy=town", "Did you mean city?"),
        ("--type", "ctiy String", "Did you mean city?"),
        ("--set", "max_thread=2", "Did you mean max_threads?"),
    ],
)
def test_columns_and_settings(cities: Shell, option: str, value: str, said: str) -> None:
    assert said in cities.ends(2, "load", "a.csv", "--table", "t", option, value).talk
    assert cities.ok("status", "--to", "rowfall-data").out.count("\n") <= 1


def test_tables(cities: Shell) -> None:
    cities.ok("load", "a.csv", "--table", "cities")
    assert "Did you mean cities?" in cities.ends(6, "query", "SELECT * FROM citeis").talk
    cities.ok("load", "a.csv", "--table", "geo.towns")
    assert "Did you mean geo.towns?" in cities.ends(6, "query", "SELECT * FROM towns").talk


def test_a_format_by_name_for_files_of_another_end(cities: Shell) -> None:
    cities.ok("load", "a.csv", "--to", "out.txt", "--to-format", "CSVWithNames")
    assert (cities.folder / "out.txt").read_text() == '"id","city"\n1,"Oslo"\n2,"Bern"\n'
    cities.ok("load", "a.csv", "--to", "out.arrow")
    assert (cities.folder / "out.arrow").read_bytes().startswith(b"ARROW1")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rename", "a:b", "hint: Write --rename a=b"),
        ("--add-column", "f", "hint: Write --add-column file=_path"),
        ("--type", "id:UInt8", "hint: Write --type 'id UInt8'"),
        ("--type", "id", "hint: Write --type 'name Type'"),
        ("--memory", "10", "10 B of memory is too little"),
        ("--attempt-bytes", "3q", "'3q' is not a size"),
        ("--set", "max_thread=3", "Did you mean max_threads?"),
        ("--set", "max_threads", "has no value"),
        ("--select", "a)", "is not complete"),
        ("--rejects", "none/r.tsv", "there is no folder none"),
    ],
)
def test_an_option_is_checked_before_the_source_is_read(
    shell: Shell, option: str, value: str, said: str
) -> None:
    # The source is not there, which a load that looked for it would say.
    for command in ("load", "plan"):
        assert said in shell.ends(2, command, "missing.csv", "--table", "t", option, value).talk


def test_a_working_directory_that_is_gone(shell: Shell) -> None:
    gone = shell.folder / "gone"
    gone.mkdir()
    # rmdir by the shell that works in it: rowfall begins in a folder that is no longer there.
    script = 'cd "$0" && rmdir "$0" && exec "$1" -m rowfall load a.csv'
    done = subprocess.run(
        ["/bin/sh", "-c", script, gone, sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "the working directory cannot be read: No such file" in done.stderr
