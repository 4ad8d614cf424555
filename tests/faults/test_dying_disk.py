"""Disks that are full or give no bytes any more: a message with the file, and nothing lost."""

from __future__ import annotations

import bz2
import os
import random
import shutil
import subprocess
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.disk import MountError, SmallDisk

ROWS = 50_000
# Reads of a file whose name holds "dying" fail from this byte on, as those of a broken sector do.
GOOD = 1 << 18
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
/* Returns how many of n bytes at an offset can be read, -1 for none. */
static ssize_t left(int fd, off_t at, size_t n) {
    char name[32], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t found = readlink(name, path, sizeof path - 1);
    if (found < 0) return n;
    path[found] = 0;
    if (!strstr(path, "dying.")) return n;
    if (at < 0) at = lseek(fd, 0, SEEK_CUR);
    if (at >= GOOD) { errno = EIO; return -1; }
    return at + (off_t)n > GOOD ? GOOD - at : (ssize_t)n;
}
static size_t total(const struct iovec *v, int n) {
    size_t sum = 0;
    while (n--) sum += v++->iov_len;
    return sum;
}
#define REAL(name, ...) ((ssize_t (*)())dlsym(RTLD_NEXT, name))(__VA_ARGS__)
#define WHOLE(fd, at) \
    ssize_t m = left(fd, at, total(v, n)); \
    if (m < (ssize_t)total(v, n)) { errno = EIO; return -1; }
ssize_t read(int fd, void *b, size_t n) {
    ssize_t m = left(fd, -1, n); return m < 0 ? m : REAL("read", fd, b, m); }
ssize_t pread(int fd, void *b, size_t n, off_t at) {
    ssize_t m = left(fd, at, n); return m < 0 ? m : REAL("pread", fd, b, m, at); }
ssize_t pread64(int fd, void *b, size_t n, off_t at) {
    ssize_t m = left(fd, at, n); return m < 0 ? m : REAL("pread64", fd, b, m, at); }
ssize_t preadv(int fd, const struct iovec *v, int n, off_t at) {
    WHOLE(fd, at) return REAL("preadv", fd, v, n, at); }
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int f) {
    WHOLE(fd, at) return REAL("preadv2", fd, v, n, at, f); }
ssize_t preadv64v2(int fd, const struct iovec *v, int n, off_t at, int f) {
    WHOLE(fd, at) return REAL("preadv64v2", fd, v, n, at, f); }
"""


@pytest.fixture
def shim(tmp_path: Path) -> str:
    """Returns a library that makes reads fail."""
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM.replace("GOOD", f"{GOOD}L"))
    compiler = shutil.which("cc")
    assert compiler is not None  # Rust needs it, too
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("form", ["zip", pytest.param("csv.bz2", marks=pytest.mark.long)])
def test_a_sector_that_cannot_be_read(rowfall: Any, shim: str, form: str) -> None:
    """Exit 70 with a traceback was all that was said; the other file is loaded.

    The library stands in front of the C library, so only of reads of this process: the engine and
    rowfall-decode have the kernel's own.
    """
    folder = rowfall.cwd / "in"
    folder.mkdir()
    r = random.Random(1)
    text = "id,n\n" + "".join(f"{n},{r.random()}\n" for n in range(ROWS))
    names = [folder / f"{name}.{form}" for name in ("dying", "fine")]
    for name in names:
        if form == "zip":
            with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a.csv", text)
        else:
            name.write_bytes(bz2.compress(text.encode()))
        assert name.stat().st_size > GOOD
    given = ("load", *map(str, names), "--table", "t")
    done = rowfall(*given, env={"LD_PRELOAD": shim})
    assert done.returncode in (1, 4), (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    assert "dying." in done.stderr
    assert "input/output error" in done.stderr.lower(), done.stderr
    again = rowfall(*given)
    assert again.returncode == 0, again.stderr
    count = rowfall("query", "SELECT count() FROM t")
    assert count.stdout.split() == ["count()", str(2 * ROWS)]


@pytest.mark.parametrize(
    "leave",
    [
        0,
        24,
        *(pytest.param(n, marks=pytest.mark.long) for n in (4, 8, 12, 16, 32, 48, 64, 96, 160)),
    ],
)
def test_a_full_disk_for_the_state(rowfall: Any, leave: int) -> None:
    """SQLite's shared memory met SIGBUS, and the command ended without a word."""
    try:
        small = SmallDisk(rowfall.cwd / "small", 1)
    except MountError as error:
        pytest.skip(str(error))
    (rowfall.cwd / "a.csv").write_text("id,n\n1,2\n2,3\n")
    own = {"ROWFALL_HOME": str(small.path / "state")}
    with closing(small):
        small.fill(leave=leave << 10)
        done = rowfall("load", "a.csv", "--to", "out.jsonl", env=own)
        assert done.returncode in (0, 3, 5), (done.returncode, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or str(small.path) in done.stderr
        small.empty()
        again = rowfall("load", "a.csv", "--to", "out.jsonl", env=own)
        assert again.returncode == 0, again.stderr
        assert (rowfall.cwd / "out.jsonl").read_text().count("\n") == 2
        assert os.path.exists(small.path / "state")
