"""A user without a home, with one that cannot be written, or with one on a network; odd locales."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.tools import Shell
from lab import debian
from lab.process import wait_until
from rowfall.core import disk
from rowfall.core.own_files import is_own

ROWS = "id,name\n1,a\n2,b\n"


@pytest.fixture
def homeless(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A user that the system does not know, as containers run with any number."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    shell.env |= {"XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    shell.write("in.csv", ROWS)
    return shell


def test_a_folder_needs_no_home(homeless: Shell) -> None:
    homeless.ok("load", "in.csv")
    assert "default.in" in homeless.ok("status").out
    assert homeless.ok("status", "--all").out.count("default.in") == 1
    homeless.ok("report", "last")
    homeless.ok("clean", "--to", "rowfall-data")


def test_what_has_to_be_remembered_elsewhere_needs_one(homeless: Shell) -> None:
    for words in (
        ("load", "in.csv", "--to", "out_{n}.csv"),
        ("load", "in.csv", "--to", "clickhouse://127.0.0.1:1/d"),
        ("load", "in.csv", "--to", "postgresql://a@127.0.0.1:1/d"),
    ):
        done = homeless.ends(2, *words)
        assert "has no home folder: HOME is not set" in done.talk
        assert "export ROWFALL_HOME=/path/of/a/folder" in done.talk
    done = homeless.ends(2, "completion", "bash", "--install")
    assert "export XDG_DATA_HOME=" in done.talk
    # Files of the clients of databases are not there: no reason to stop.
    assert "no service q" in homeless.ends(2, "plan", "postgresql:///x/t?service=q").talk
    assert "Connection refused" in homeless.ends(4, "plan", "mysql://a@127.0.0.1:1/b/t").talk
    kept = {"ROWFALL_HOME": str(homeless.folder / "kept")}
    homeless.ok("load", "in.csv", "--to", "out_{n}.csv", env=kept)


@pytest.fixture
def read_only(shell: Shell) -> Iterator[Path]:
    """A state folder with the ledger of an export, on a file system that is read-only now."""
    if os.geteuid():
        pytest.fail("this test mounts a file system, which needs root")
    folder = shell.folder.parent / "read-only"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)  # noqa: S607
    try:
        shell.write("in.csv", ROWS)
        shell.env["ROWFALL_HOME"] = str(folder / "state")
        shell.ok("load", "in.csv", "--to", "kept_{n}.csv")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)  # noqa: S607
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)  # noqa: S607


@pytest.mark.long
def test_a_read_only_home_can_be_asked(shell: Shell, read_only: Path) -> None:
    assert "kept_{n}.csv" in shell.ok("status").out
    shell.ok("report", "last", "--to", "kept_{n}.csv")
    shell.ok("explain", "last", "--to", "kept_{n}.csv")
    ledger = read_only / "state/rowfall.ledger"
    for target in ("kept_{n}.csv", "other_{n}.csv"):
        done = shell.ends(3, "load", "in.csv", "--to", target, "--replace")
        assert f"cannot write to the ledger {ledger}: it is on a read-only file system" in done.talk
        assert "export ROWFALL_HOME=" in done.talk
    assert not (shell.folder / "other_0.csv").exists()
    done = shell.ends(3, "load", "in.csv", "--to", "a.duckdb")
    assert "cannot create the ledger" in done.talk
    assert "Read-only file system" in done.talk


@pytest.mark.long
def test_what_measures_says_so_on_a_read_only_home(shell: Shell, read_only: Path) -> None:
    for words in (("doctor", "in.csv"), ("tune", "in.csv", "--save", "x")):
        done = shell.ends(3, *words)
        assert f"cannot record in {read_only}/state/measuring" in done.talk


def test_file_systems_that_others_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    read = Path.read_text
    shown = ""

    def mounts(path: Path, *args: str, **more: str) -> str:
        return shown if str(path) == "/proc/self/mountinfo" else read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", mounts)
    for kind, shared in (
        ("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("fuse", True), ("9p", True),
        ("ext4", False), ("tmpfs", False), ("fuseblk", False), ("overlay", False),
    ):  # fmt: skip
        shown = (
            "22 27 0:999 / /proc rw - nfs4 x rw\n"
            f"45 27 {number} / /home rw,relatime shared:1 master:2 - {kind} host:/home rw,vers=4\n"
        )
        assert disk.is_shared(tmp_path) is shared, kind
    shown = ""
    assert not disk.is_shared(tmp_path)
    assert not disk.is_shared(tmp_path / "missing")


@pytest.mark.long
def test_a_ledger_on_a_network_has_no_index_in_memory(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WAL needs memory that all writers share, which two machines do not."""
    shell.write("in.csv", ROWS)
    shell.ok("load", "in.csv", "--to", "one_{n}.csv")  # before the home moved to the network
    ledger = shell.cli.home / "state/rowfall/rowfall.ledger"
    monkeypatch.setattr(disk, "is_shared", lambda folder: True)
    shell.ok("load", "in.csv", "--to", "two_{n}.csv")
    with contextlib.closing(sqlite3.connect(ledger)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert db.execute("SELECT count(*) FROM load WHERE state = 'done'").fetchone() == (2,)
    assert is_own("rowfall.ledger-journal")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[list[Path]]:
    """One folder as two machines have it: by FUSE, without memory that they share."""
    root = debian.unpacked("bindfs", "bindfs", needs=True)
    libraries = ":".join(map(str, root.rglob("x86_64-linux-gnu")))
    (tmp_path / "real").mkdir()
    options = "direct_io,attr_timeout=0,entry_timeout=0"
    served, folders = [], []
    try:
        for name in ("here", "there"):
            folder = tmp_path / name
            folder.mkdir()
            served.append(subprocess.Popen(
                [root / "usr/bin/bindfs", "-f", "--enable-lock-forwarding", "--multithreaded",
                 "-o", options, tmp_path / "real", folder],
                env={**os.environ, "LD_LIBRARY_PATH": libraries},
            ))  # fmt: skip
            wait_until(lambda folder=folder: os.path.ismount(folder), 20, "the mount")
            folders.append(folder)
        yield folders
    finally:
        for folder in folders:
            subprocess.run(["umount", "-l", folder], check=True)  # noqa: S607
        for process in served:
            process.wait()


@pytest.mark.long  # FUSE from Debian's packages, and root
def test_two_machines_share_a_home(shell: Shell, network: list[Path]) -> None:
    for number in range(4):
        shell.write(f"{number}.csv", ROWS)
    began = []
    for round_ in range(4):
        for place in network:
            env = {"ROWFALL_HOME": str(place)}
            to = f"of_{place.name}_{round_}_{{n}}.csv"
            began.append(shell.cli.start("load", f"{round_}.csv", "--to", to, env=env))
        for process in began:
            said = process.communicate()[1]
            assert process.returncode == 0, said
        began.clear()
    for place in network:
        done = shell.ok("status", "--all", "--json", env={"ROWFALL_HOME": str(place)})
        assert len(done.document["loads"]) == 8


# Locks of files in a folder are refused as NFS does without its service for them.
_NO_LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int there(int fd) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    return size > 0 && !strncmp(path, FOLDER, strlen(FOLDER));
}
#define REFUSING(name) int name(int fd, int cmd, ...) { \
    va_list more; va_start(more, cmd); void *given = va_arg(more, void *); va_end(more); \
    if ((cmd == F_SETLK || cmd == F_SETLKW) && there(fd)) { errno = ENOLCK; return -1; } \
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, #name); return real(fd, cmd, given); }
REFUSING(fcntl)
REFUSING(fcntl64)
int flock(int fd, int how) {
    if (there(fd)) { errno = ENOLCK; return -1; }
    int (*real)(int, int) = dlsym(RTLD_NEXT, "flock"); return real(fd, how); }
"""


@pytest.mark.long  # SQLite asks for ten seconds whether the lock is free
def test_a_home_without_locks(shell: Shell, tmp_path: Path) -> None:
    home, library = tmp_path / "far", tmp_path / "refusing.so"
    home.mkdir()
    subprocess.run(
        ["cc", "-shared", "-fPIC", f'-DFOLDER="{home}"', "-o", library, "-x", "c", "-"],  # noqa: S607
        input=_NO_LOCKS, check=True, text=True,
    )  # fmt: skip
    shell.write("in.csv", ROWS)
    for to, code, wanted in (
        (home / "data", 5, "a data folder needs\n  hint: Give a folder on a disk of this machine"),
        ("a.duckdb", 3, "needs\n  hint: Name another place: export ROWFALL_HOME="),
    ):
        env = {"ROWFALL_HOME": str(home), "LD_PRELOAD": str(library)}
        process = shell.cli.start("load", "in.csv", "--to", str(to), env=env)
        said = process.communicate()[1]
        assert process.returncode == code, said
        assert " has no locks, which " in said
        assert wanted in said
        assert "another process" not in said


PLAIN = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "POSIX"}


@pytest.mark.parametrize(
    "env", [PLAIN, pytest.param({"LC_ALL": "C"}, marks=pytest.mark.long),
            pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.long)],
)  # fmt: skip
def test_names_are_utf8_whatever_the_locale(shell: Shell, env: dict[str, str]) -> None:
    shell.write("ünï→.csv", "id,näme\n1,ä😀\n")
    done = shell.cli("plan", "ünï→.csv", env={**env, "COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    name = "näme" if env == {"LC_ALL": "C"} else r"n\xe4me"
    assert f"`{name}` String" in done.stdout
    done = shell.cli("query", "SELECT 'ä' AS `ü`", env=env)
    assert done.stdout == "ü\nä\n"


def test_a_statement_that_is_no_utf8(shell: Shell) -> None:
    done = shell.ends(2, "query", "SELECT '\udcff'")
    assert "the statement is not valid UTF-8" in done.talk


def test_a_python_that_cannot_be_started_again(shell: Shell) -> None:
    shell.write("in.csv", ROWS)
    code = (
        "import sys; sys.executable = '/nowhere/python'; "
        "from rowfall.cli import main; main(sys.argv[1:])"
    )
    process = shell.cli.start("load", "in.csv", program=[sys.executable, "-c", code])
    _, said = process.communicate()
    assert process.returncode == 6, said
    assert "cannot start the engine's process: /nowhere/python: No such file" in said
