"""Completion in real shells, as ``rowfall completion SHELL --install`` leaves it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.tools import Shell
from lab import shells

# 3 MB are fetched and unpacked, and a shell asks rowfall for each answer.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def root() -> Path:
    return shells.unpacked()


@pytest.fixture
def environment(shell: Shell, root: Path) -> dict[str, str]:
    """A user whose programs are these shells and this rowfall; there is a table ``trips``."""
    shell.write("data.csv", "id,n\n1,2\n")
    shell.write("rowfall.toml", '[connections.prod]\nuri = "data"\n')
    shell.ok("load", "data.csv", "--table", "trips")
    path = f"{Path(sys.executable).parent}:{root}/bin:{root}/usr/bin:{os.environ['PATH']}"
    return {
        **shell.cli._environment(None), "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu",
    }  # fmt: skip


ANSWERS = [
    ("rowfall compl", "completion"),
    ("rowfall load dat", "data.csv"),
    ("rowfall load data.csv --table tri", "trips"),
    ("rowfall load data.csv --to pro", "prod"),
    ("rowfall load data.csv --decoder al", "always"),
    ("rowfall load data.csv --format Parq", "Parquet"),
    ("rowfall load --patie", "--patience"),
]


def test_fish(shell: Shell, environment: dict[str, str]) -> None:
    shell.ok("completion", "fish", "--install")
    for typed, wanted in ANSWERS:
        done = subprocess.run(
            ["fish", "-c", f"complete -C '{typed}'"], cwd=shell.folder, env=environment,  # noqa: S607
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = [line.split("\t")[0] for line in done.stdout.splitlines()]
        assert wanted in found, (typed, done.stdout, done.stderr)


def test_zsh(shell: Shell, environment: dict[str, str], root: Path) -> None:
    data = Path(environment["HOME"]) / "share"
    environment["XDG_DATA_HOME"] = str(data)
    said = shell.ok("completion", "zsh", "--install", env={"XDG_DATA_HOME": str(data)}).talk
    own = re.findall(r"'(fpath\+=\(.*?\))' in front of '(.*?)'", said)[0]
    parts = [str(p) for p in (root / "usr/share/zsh/functions").rglob("*") if p.is_dir()]
    (Path(environment["HOME"]) / ".zshrc").write_text(
        f"module_path=({next(root.glob('usr/lib/*/zsh/*'))})\n"
        f"fpath=({' '.join(parts)})\n{own[0]}\n"
        # -u: folders of others, -D: no file of what was found.
        f"{own[1]} -u -D\nPS1='ready> '\nunsetopt beep\n"
    )
    with _terminal(["zsh", "-i"], shell.folder, environment) as (read, write):
        read("ready> ")
        for typed, wanted in ANSWERS:
            write(f"{typed}\t")
            assert read(f"{typed}{wanted[len(typed.split()[-1]) :]}"), typed
            write("\x15")  # the line is deleted


@contextlib.contextmanager
def _terminal(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[tuple[Callable[[str], bool], Callable[[str], int]]]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)  # noqa: S606

    def read(wanted: str) -> bool:
        shown, deadline = b"", time.monotonic() + 30
        while wanted.encode() not in re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]|\r", b"", shown):
            if time.monotonic() > deadline:
                raise AssertionError(f"{wanted!r} did not come: {shown!r}")
            if select.select([terminal], [], [], 0.5)[0]:
                shown += os.read(terminal, 4096)
        return True

    try:
        yield read, lambda text: os.write(terminal, text.encode())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
