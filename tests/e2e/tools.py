"""What the end-to-end tests share: a shell around the command that checks exit codes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rowfall
from lab.clickhouse import ClickHouse
from lab.process import let_pass

Row = list[Any]
LOG = logging.getLogger("rowfall.e2e")


@dataclass(frozen=True, slots=True)
class Done:
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What ``--json`` printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def talk(self) -> str:
        """stderr as one line: where it wraps is no matter of these tests."""
        return " ".join(self.err.split())


class Shell:
    """The command in a folder of its own.

    Args:
        cli: the ``rowfall`` fixture.
        env: variables for every command.
    """

    def __init__(self, cli: Any, env: Mapping[str, str] | None = None) -> None:
        self.cli = cli
        self.env = dict(env or {})

    @property
    def folder(self) -> Path:
        """Where commands run."""
        folder: Path = self.cli.cwd
        return folder

    def run(self, *args: str, env: Mapping[str, str] | None = None, stdin: Any = None) -> Done:
        """Run to the end, whatever the exit code.

        In this process, unless there is ``stdin`` or the command leaves servers behind.

        Args:
            stdin: text.
        """
        given = {**self.env, **(env or {})}
        if stdin is None and self.cli.plain and args[:2] != ("lab", "up"):
            done = self.cli.inside(*args, env=given)
        else:
            done = self.cli(*args, env=given, stdin=stdin)
        LOG.info("rowfall %s\n%s%s[%s]", " ".join(args), done.stdout[:4000], done.stderr[:4000],
                 done.returncode)  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def powerless(self, *args: str) -> Done:
        """Run without the right of the superuser to pass by the modes of files."""
        drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        command = [*(drop if os.geteuid() == 0 else []), sys.executable, "-m", "rowfall", *args]
        env = {**os.environ, "HOME": str(self.folder)}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        LOG.info("rowfall %s\n%s%s", " ".join(args), done.stdout[:4000], done.stderr[:4000])
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, env: Mapping[str, str] | None = None, stdin: Any = None) -> Done:
        """Run, and expect exit code 0."""
        return self.ends(0, *args, env=env, stdin=stdin)

    def ends(
        self, code: int, *args: str, env: Mapping[str, str] | None = None, stdin: Any = None
    ) -> Done:
        """Run, and expect this exit code and never a traceback."""
        done = self.run(*args, env=env, stdin=stdin)
        assert done.code == code, f"{' '.join(args)}\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err
        return done

    def script(self, path: Path, *args: str) -> str:
        """stdout of a Python script that uses the library."""
        done = subprocess.run(
            [sys.executable, str(path), *args], cwd=self.folder, capture_output=True, text=True,
            env={**os.environ, "HOME": str(self.cli.home)}, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def typed(self, text: str, *args: str) -> str:
        """What a terminal shows of a command that asks for ``text`` to be typed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            env = {**os.environ, "HOME": str(self.cli.home)}
            os.execve(sys.executable, [sys.executable, "-m", "rowfall", *args], env)  # noqa: S606
        shown = b""
        with contextlib.suppress(OSError):  # EIO: its end
            while piece := os.read(terminal, 4096):
                shown += piece
                if text and shown.rstrip().endswith(b":"):
                    os.write(terminal, text.encode())
                    text = ""
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, shown
        return shown.decode()

    def rows(self, sql: str, *args: str) -> list[Row]:
        """The result of a query."""
        done = self.ok("query", sql, "--format", "JSONCompactEachRow", *args)
        found = [json.loads(line) for line in done.out.splitlines()]
        return [[int(x) if isinstance(x, str) and x.isdigit() else x for x in r] for r in found]

    def row(self, sql: str, *args: str) -> Row:
        """The only row of a result."""
        (found,) = self.rows(sql, *args)
        return found

    def write(self, name: str, content: str | bytes) -> Path:
        """A file below the folder of the commands."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def csv(rows: Sequence[Sequence[Any]], *names: str) -> str:
    """CSV text, with a header where names are given."""
    lines = [",".join(names)] if names else []
    lines += [",".join(map(str, row)) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def three_files(shell: Shell) -> str:
    """Write 3,000 rows into three files, which are smaller than a block; return their pattern."""
    for number in range(3):
        rows = [(i, f"n{i}", i / 8) for i in range(number * 1000, (number + 1) * 1000)]
        shell.write(f"in/{number}.csv", csv(rows, "id", "name", "price"))
    return "in/*.csv"


def tables(server: ClickHouse, database: str) -> list[str]:
    """Name, UUID and rows of each table of a database, as lines of TSV."""
    found = server.query(
        "SELECT name, uuid, ifNull(total_rows, 0) FROM system.tables WHERE database = "
        f"'{database}' ORDER BY name"
    )
    return found.splitlines()


def sizes_of_files(*roots: Path) -> dict[str, int]:
    """Every file below some folders, with its size."""
    return {str(p): p.stat().st_size for r in roots for p in r.rglob("*") if p.is_file()}


def made(sql: str, format: str) -> bytes:
    """The result of a query as a file of ``format``, made by an engine in memory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryDirectory() as folder:
        rowfall.query(sql, to=folder, format=format, out_fd=out.fileno())
        out.seek(0)
        return out.read()


def decoder_of(process: subprocess.Popen[Any]) -> int:
    """Wait for the decoder that a process starts, and return its pid."""
    deadline = time.monotonic() + 30  # a load starts in one second, on a busy machine in ten
    while process.poll() is None and time.monotonic() < deadline:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread or a child that has just ended
                for child in (task / "children").read_text().split():
                    command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                    # Others are asked about a sample before the load, and live for milliseconds.
                    if command[0].endswith(b"/rowfall-decode") and command[1] != b"sample":
                        return int(child)
        let_pass(0.005, "a decoder may live for some milliseconds")
    raise AssertionError("no decoder was seen before the load was over")


def kill_while_it_loads(shell: Shell, *args: str) -> None:
    """Start a load and kill it as soon as it has said what it loads."""
    child = shell.cli.start(*args)
    for line in child.stderr:
        if line.startswith("load "):
            break
    child.kill()
    child.communicate()
