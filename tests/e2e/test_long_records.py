"""Records of text that are longer than ``--max-record``."""

from __future__ import annotations

import re

import pytest

from e2e.tools import Shell


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["a.csv", "a.json"])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_the_hint_of_a_long_record_works(shell: Shell, name: str, late: bool) -> None:
    """Refused with its place, in the sample and far behind it; the other files are loaded."""
    json = name.endswith("json")
    rows = [f'{{"id":{n},"t":"x"}}' if json else f"{n},x" for n in range(200_000 if late else 5)]
    value = "y" * (2 << 20)
    lines = [*([] if json else ["id,t"]), *rows]
    text = "\n".join(lines) + "\n"
    record = f'{{"id":-1,"t":"{value}"}}' if json else f"-1,{value}"
    (shell.folder / name).write_text(f"{text}{record}\n")
    (shell.folder / f"b{name}").write_text(text[:20_000].rpartition("\n")[0] + "\n")
    load = ("load", name, f"b{name}", "--table", "t", "--max-record", "1MiB", "--memory", "1GiB")
    done = shell.ends(1, *load)
    place = f"{name} line {len(lines) + 1}: a record of more than 1.00 MiB"
    assert f"{place} begins at byte {len(text):,}" in done.talk
    assert shell.row("SELECT count() > 0, countIf(id = -1) FROM t") == [1, 0]
    found = re.search(r"--max-record (\S+),", done.talk)
    assert found
    shell.ok("load", name, "--table", "t", "--max-record", found[1])
    assert shell.row("SELECT countIf(id = -1 AND length(t) > 2000000) FROM t") == [1]
    assert "at least --max-record 1MiB" in shell.ends(2, "load", name, "--max-record", "1kB").talk


@pytest.mark.parametrize("end", ["x" * (2 << 20), '"' + "x\n" * (1 << 20)], ids=["line", "quote"])
def test_a_long_record_of_stdin_has_a_place(shell: Shell, end: str) -> None:
    """The engine would hold as much of it as it may, and say that memory is missing."""
    rows = "id,t\n" + "".join(f"{n},x\n" for n in range(600_000))
    load = ("load", "-", "--format", "CSVWithNames", "--table", "t", "--max-record", "1MiB")
    done = shell.ends(1, *load, stdin=f"{rows}-1,{end}")
    place = "line 600002: a record of more than 1.00 MiB begins at byte "
    assert f"{place}{len(rows):,}" in " ".join(done.talk.split())
    shell.ok(*load, stdin=rows)
    assert shell.row("SELECT count(), countIf(id < 0) FROM t") == [600_000, 0]


@pytest.mark.parametrize("way", ["auto", "never", "stdin"])
def test_an_array_on_one_line_is_no_record(shell: Shell, way: str) -> None:
    """What json.dumps writes was refused from 64 MiB on, or held two workers up for ever."""
    text = "[" + ",".join(f'{{"id":{n},"t":["x"]}}' for n in range(100_000)) + "]"
    (shell.folder / "a.json").write_text(text)
    load = ("--table", "t", "--max-record", "1MiB", "--threads", "2")
    if way == "stdin":
        shell.ok("load", "-", *load, stdin=text)
    else:
        shell.ok("load", "a.json", *load, "--decoder", way)
    assert shell.row("SELECT count(), sum(id) FROM t") == [100_000, sum(range(100_000))]
    (shell.folder / "b.json").write_text('[{"id":1,"t":["' + "x" * (2 << 20) + '"]}]')
    done = shell.run("load", "b.json", "--table", "u", "--max-record", "1MiB")
    assert done.code in (1, 4)
    assert "b.json line 1: a record of more than 1.00 MiB begins at byte 0" in done.talk


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["auto", "never", "stdin"])
@pytest.mark.parametrize("text", ["[1,2,", "[[1],[2],", ' [ "a", '])
def test_an_array_without_objects_is_no_long_record(shell: Shell, text: str, way: str) -> None:
    """It was "a record of more than 64 MiB", whose hint leads to another refusal."""
    text += "3," * (1 << 20) + "4]"
    load = ["--table", "t", "--max-record", "1MiB", "--memory", "1GiB"]
    if way == "stdin":
        done = shell.run("load", "-", *load, "--format", "JSONEachRow", stdin=text)
    else:
        (shell.folder / "a.json").write_text(text)
        done = shell.run("load", "a.json", *load, "--decoder", way)
    assert done.code in (1, 4)
    said = " ".join(done.talk.split())
    assert f"line 1 is not a JSON object: {text.strip()[:20]}" in said
    assert 'write each element of the array as one, like {"value": 1}' in said
    assert "a record of more than" not in said
