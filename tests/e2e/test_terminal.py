"""What files, servers and people name is never obeyed by the terminal that it is printed on."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell
from lab.process import wait_until
from lab.scripted import Reply, Scripted

# The title of the window, a colour, a click, the screen erased (C1), letters turned around, DEL.
EVIL = "\x1b]0;PWN\x07\x1b[31mRED\b\x9b2J\u202egnp\u2066\x7f"
COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
RICH = re.compile(r"\x1b\[[\d;]*m|\x1b\[\d*[AK]|\x1b\[\?25[hl]|\r")


def on_terminal(shell: Shell, *args: str, columns: int = 0) -> str:
    """What a terminal is sent by a command; 0 columns are those of a new one."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        env = {**os.environ, "HOME": str(shell.cli.home), "TERM": "xterm-256color"}
        if columns:
            termios.tcsetwinsize(1, (24, columns))
            env.pop("COLUMNS", None)
        os.execve(sys.executable, [sys.executable, "-m", "rowfall", *args], env)  # noqa: S606
    shown = b""
    with contextlib.suppress(OSError):  # EIO: its end
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.decode()


def check(text: str, *, terminal: bool) -> None:
    assert "\x1b[31mRED" not in text
    found = COMMANDS.findall(RICH.sub("", text) if terminal else text)
    assert found == [], text


@pytest.fixture
def hostile(shell: Shell) -> list[tuple[str, ...]]:
    """Commands whose output repeats what is in files, names and options."""
    folder = shell.folder
    (folder / f"head{EVIL}.csv").write_text(f"id,a{EVIL}b\n1,x\n2,y\n")
    (folder / "keys.json").write_text(json.dumps({"id": 1, f"k{EVIL}": 2}) + "\n")
    (folder / "value.csv").write_text("id,when\n" + "1,2\n" * 3 + f"x{EVIL},3\n")
    (folder / "short.csv").write_text(f'id,name\n1,"{EVIL}\n')
    (folder / "broken.json").write_text(f'{{"id":1}}\n{{"id":{EVIL}}}\n')
    (folder / f"no{EVIL}.gz").write_bytes(b"\x1f\x8b\x08 nothing")
    return [
        ("plan", f"head{EVIL}.csv", "-v"),
        ("load", f"head{EVIL}.csv", "--table", "t", "-v"),
        ("load", "keys.json", "--table", "j", "-v"),
        ("load", "value.csv", "--table", "v", "--type", "id Int64", "-v"),
        ("load", "short.csv", "--table", "s"),
        ("load", "broken.json", "--table", "b"),
        ("load", f"no{EVIL}.gz", "--table", "g"),
        ("load", f"missing{EVIL}.csv"),
        ("load", "value.csv", "--table", f"t{EVIL}", "-v"),
        ("load", f"kafka://127.0.0.1:1/topic{EVIL}"),
        ("load", "value.csv", "--to", f"postgresql://u{EVIL}@127.0.0.1:1/d{EVIL}"),
        ("load", f"--opt{EVIL}", "x"),
        ("query", f"SELECT throwIf(1, '{EVIL}')"),
        ("status",),
        ("report", "last"),
        ("report", "last", "-v"),
        ("verify", "last"),
        ("status", "--json"),
    ]  # fmt: skip


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_no_output_is_obeyed(
    shell: Shell, hostile: list[tuple[str, ...]], every: int
) -> None:  # fmt: skip
    """7 of 21 outputs printed escapes raw: headers, keys of JSON, names of files."""
    for args in hostile[1::every]:
        done = shell.run(*args, "--log-file", "log.txt") if args[0] == "load" else shell.run(*args)
        # Programs that read stdout of a query get the very bytes.
        check(done.err if args[0] == "query" else done.out + done.err, terminal=False)
    check((shell.folder / "log.txt").read_text(), terminal=False)
    document = shell.run("load", "keys.json", "--table", "j", "--force", "--json")
    check(document.out, terminal=False)
    assert document.document["outcome"] == "done"
    failed = shell.run("load", f"missing{EVIL}.csv", "--json")
    check(failed.out, terminal=False)
    assert EVIL in json.loads(failed.out)["error"]  # programs get what it is
    logged = shell.run("load", f"missing{EVIL}.csv", "--log-format", "json")
    check(logged.err, terminal=False)
    assert EVIL in json.loads(logged.err.splitlines()[-1])["error"]


@pytest.mark.long
def test_no_terminal_obeys(shell: Shell, hostile: list[tuple[str, ...]]) -> None:
    for args in hostile:
        check(on_terminal(shell, *args), terminal=True)


def test_a_terminal_shows_values_and_files_get_them(shell: Shell) -> None:
    sql = "SELECT concat('a', char(27), '[31mRED', char(7), char(27), ']0;PWN') AS x"
    shown = on_terminal(shell, "query", sql)
    assert "a\\x1b[31mRED\\x07\\x1b]0;PWN" in shown
    check(shown, terminal=True)
    shown = on_terminal(shell, "load", f"missing{EVIL}.csv")
    assert "missing\\x1b]0;PWN\\x07\\x1b[31mRED\\x08\\x9b2J\\u202egnp" in "".join(shown.split())
    check(shown, terminal=True)
    # No terminal: the very bytes.
    command = [sys.executable, "-m", "rowfall", "query", sql, "--format", "TSVRaw"]
    env = {**os.environ, "HOME": str(shell.cli.home)}
    done = subprocess.run(command, cwd=shell.folder, env=env, capture_output=True, check=True)
    assert done.stdout == b"a\x1b[31mRED\x07\x1b]0;PWN\n"


def test_what_a_server_says_is_not_obeyed(shell: Shell, tmp_path: Path) -> None:
    said = "no \x1b]0;PWN such thing"
    with Scripted(lambda asked: Reply(said.encode(), status=403)) as web:
        for args in (
            ("load", web.url("a.csv")),
            ("load", "keys.csv", "--to", f"clickhouse://{web.host}/db"),
            ("load", "s3://bucket/x*"),
        ):
            (shell.folder / "keys.csv").write_text("id\n1\n")
            env = {"AWS_ENDPOINT_URL": f"http://{web.host}", "AWS_ACCESS_KEY_ID": "k",
                   "AWS_SECRET_ACCESS_KEY": "s"}  # fmt: skip
            done = shell.run(*args, env=env)
            assert done.code in (4, 5)
            check(done.out + done.err, terminal=False)


def _too_long(text: str, columns: int) -> list[str]:
    """Return lines that the terminal breaks, but for commands to copy.

    A path stays whole, and then there is as much room in all lines of its list.
    """
    shown = (line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n"))
    plain = [re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line) for line in shown]
    lines = [line for line in plain if " rowfall " not in f" {line}" and "--" not in line]
    room = max(columns, 14 + max(len(word) for line in lines for word in (line or "-").split()))
    return [line for line in lines if len(line) > room]


@pytest.mark.parametrize("columns", [40, pytest.param(300, marks=pytest.mark.long)])
def test_narrow_and_wide_terminals(shell: Shell, columns: int) -> None:
    """No line is broken by the terminal, and nothing is left out."""
    shell.write("a.csv", "id,name\n1,x\n2,y\n")
    shell.write("b.csv", "id,name\n1,x\nz,y\n")
    commands = [
        ("load", "a.csv"), ("load", "a.csv"), ("plan", "a.csv", "--table", "b"), ("status",),
        ("tables",), ("report", "last"), ("explain", "last"), ("load", "nothing.csv"),
        ("load", "b.csv", "--table", "a", "--type", "id Int64"), ("--help",), ("load", "--help"),
        ("load", "rowfall-data", "--tables", "*", "--to", "other"),
        ("plan", "rowfall-data", "--tables", "*", "--to", "other"), ("export", "--help"),
        ("export", "a", "a.parquet"), ("query", "SELECT * FROM a"),
    ]  # fmt: skip
    for words in commands if columns == 300 else commands[::2]:
        shown = on_terminal(shell, *words, columns=columns)
        assert not _too_long(shown, columns), (words, _too_long(shown, columns))
    status = on_terminal(shell, "status", columns=columns)
    for word in ("done", "started (UTC)", "rows/s", "default.a"):
        assert word in status
    assert "CREATE TABLE" in on_terminal(shell, "plan", "a.csv", "--table", "c", columns=columns)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("undo", "last"), 2, "nothing was taken out"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (("load", "-", "--table", "t"), 4, "cannot read stdin: it is empty"),
                (("forget", "last"), 2, "was forgotten"), (("query", "-"), 0, ""),
            )
        ),
    ],
)  # fmt: skip
def test_a_stdin_that_is_closed(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:  # fmt: skip
    """As daemons start commands: nobody is asked."""
    shell.write("a.csv", "id\n1\n")
    shell.ok("load", "a.csv")
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -m rowfall "$@" <&-', sys.executable, *words],
        cwd=shell.folder, env=shell.cli._environment(None), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@pytest.mark.long  # a load of some seconds
@pytest.mark.parametrize("before", [(), ("nohup",)])
def test_a_terminal_that_goes_away(shell: Shell, before: tuple[str, ...]) -> None:
    """As a connection of ssh that breaks off: SIGHUP, and nothing can be said any more."""
    load = ("load", "generate://taxi?rows=8_000_000", "--threads", "1", "--to", "to")
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
        os.chdir(shell.folder)
        command = [*before, sys.executable, "-m", "rowfall", *load]
        os.execvpe(command[0], command, shell.cli._environment(None))  # noqa: S606

    def said() -> dict[str, Any]:
        loads = shell.ok("status", "--to", "to", "--json").document["loads"]
        return dict(loads[0]) if loads else {}

    wait_until(lambda: (said().get("progress") or 0) > 0, 60, "no progress was said")
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if before else 130)
    assert said()["outcome"] == ("done" if before else "interrupted")
    assert not list((shell.folder / "to").glob("*.running*"))
