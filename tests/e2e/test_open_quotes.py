"""Quotes that are never closed, where an engine parses: rows behind them are not one value."""

from __future__ import annotations

import gzip

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.http import Web
from lab.seaweed import Seaweed

BREAKS = "id,name\n" + "".join(f'{n},"a\nb{n}"\n' for n in range(30_000))
OPEN = {
    "cut": ('id,name\n1,a\n2,"cut off', "line 3"),
    "swallowing": (BREAKS + '1,"open\n3,b\n4,c\n', "line 60002"),
    "number": ('id,v\n1,20\n2,"12', "line 3"),
}
NEVER = ("--decoder", "never", "--table", "t")
GOOD = "id,name\n1,a\n"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def refused(talk: str, name: str, place: str) -> None:
    said = f"{name} {place}: a quote is opened here and not closed before the file ends"
    assert said in " ".join(talk.split()), talk


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("kind", OPEN)
def test_a_file_that_the_engine_parses(shell: Shell, kind: str, packed: bool) -> None:
    text, place = OPEN[kind]
    name = "in/b.csv.gz" if packed else "in/b.csv"
    bad = shell.write(name, gzip.compress(text.encode()) if packed else text)
    header = text.partition("\n")[0]
    shell.write(
        "in/a.csv.gz" if packed else "in/a.csv",
        gzip.compress(f"{header}\n1,7\n".encode()) if packed else f"{header}\n1,7\n",
    )
    done = shell.ends(1, "load", "in/", *NEVER)
    refused(done.talk, str(bad), place)
    assert shell.row("SELECT count() FROM t") == [1]


def test_letters_and_closed_quotes_are_loaded(shell: Shell) -> None:
    shell.write("a.csv", 'id,name\n1,5" tall\n2,"a ""b"""\n3,"a,"\n4,"c"')
    shell.ok("load", "a.csv", *NEVER)
    assert shell.row("SELECT count() FROM t") == [4]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_value_that_was_cut_off_is_no_row_that_may_be_left_out(
    shell: Shell, decoder: str
) -> None:
    """Its row looks good: "cut off" was loaded as it stood."""
    shell.write("a.csv", OPEN["cut"][0])
    ways = ("--table", "t", "--decoder", decoder, "--max-errors", "5")
    refused(shell.ends(1, "load", "a.csv", *ways).talk, "a.csv", "line 3")


def test_a_long_stream_that_the_engine_parses(shell: Shell) -> None:
    text, place = OPEN["swallowing"]
    stream = ("load", "-", "--format", "csv", *NEVER)
    refused(shell.ends(1, *stream, stdin=text).talk, "stdin", place)
    assert shell.row("SELECT count() FROM t") == [0]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("kind", ["cut", "swallowing"])
def test_files_on_the_web(shell: Shell, web: Web, kind: str, packed: bool) -> None:
    text = OPEN[kind][0]
    name = f"{kind}.csv.gz" if packed else f"{kind}.csv"
    url = web.put(f"quotes/{name}", gzip.compress(text.encode()) if packed else text.encode())
    at = OPEN[kind][1] if packed else f"byte {text.rindex(chr(34)):,}"
    refused(shell.ends(1, "load", url, *NEVER).talk, url, at)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("kind", ["cut", "swallowing"])
def test_objects_that_a_server_reads(
    lake: Lake, s3: Seaweed, bucket: str, kind: str, packed: bool
) -> None:
    text = OPEN[kind][0]
    end = ".csv.gz" if packed else ".csv"
    for name, data in (("a", GOOD), ("b", text)):
        s3.put(bucket, name + end, gzip.compress(data.encode()) if packed else data.encode())
    done = lake.ends(
        1, "load", f"s3://{bucket}/*{end}", *NEVER, "--pull", "--attempt-bytes", "1MB", env=s3.env
    )
    at = OPEN[kind][1] if packed else f"byte {text.rindex(chr(34)):,}"
    refused(done.talk, f"s3://{bucket}/b{end}", at)
    assert lake.row("SELECT count() FROM {db}.t") == [1]


def test_the_place_is_that_of_the_quote(shell: Shell) -> None:
    """The first value with line breaks was named, in a file that is looked at as a whole."""
    text = "id,name\n" + "".join(f'{n},"a\nb{n}"\n' for n in range(30)) + '1,"open\n3,b\n'
    shell.write("a.csv", text)
    refused(shell.ends(1, "load", "a.csv", *NEVER).talk, "a.csv", "line 62")
