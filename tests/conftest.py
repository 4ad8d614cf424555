"""Fixtures that every test may use: the services of the lab and the command itself."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest
from hypothesis import settings

import forking
from faults.kills import SEED
from gate import ALL
from lab.azure import Azure
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.google import Google
from lab.hdfs import Hdfs
from lab.http import Web
from lab.kafka import Kafka
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.seaweed import Seaweed
from rowfall.cli import app
from rowfall.systems.clickhouse import prestart

# Shared machines pause for longer than any per-example deadline; the test timeout still holds.
# The gate tries the same examples each time; runs by hand look for new ones.
settings.register_profile(
    "rowfall", deadline=None, derandomize="CI" in os.environ, max_examples=100 if ALL else 20
)
settings.load_profile("rowfall")


def _use_memory() -> None:
    """Put what tests and services write into memory, where there is enough (they need 3 GB).

    An ext4 without a journal, as virtual machines have it, looks for each new file at all that were
    deleted in the last minutes: 300 us, in memory 11. Workers inherit the variable.
    """
    memory, available = Path("/dev/shm"), Path("/proc/meminfo")  # noqa: S108
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or not available.exists():
        return
    disk = os.statvfs(memory)
    free = int(available.read_text().partition("MemAvailable:")[2].split()[0]) << 10
    if min(disk.f_bavail * disk.f_frsize, free) < 8 << 30:
        return
    own = f"rowfall-tests-{os.getpid()}"
    for left in memory.glob("rowfall-tests-*"):  # a run's files stay for a look until the next one
        if left.name == own or not Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    (memory / own).mkdir(mode=0o711)  # services run as another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(memory / own)


def _keep_byte_code() -> None:
    """Let the commands of the tests, a thousand processes, compile rowfall once, and not each.

    A load is 0.4 s of CPU here and was 0.6 in images that set the variable.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_configure() -> None:
    gc.disable()  # until all tests are collected: they stay
    _keep_byte_code()
    _use_memory()
    prestart._spawn = forking.spawn
    # Parallel workers inherit the variable: they have to draw the same cases of the fault tests.
    # The gate does the same each time; the long forms look for what is new.
    long = ALL or "ROWFALL_FAULT_ROUNDS" in os.environ
    os.environ.setdefault(SEED, str(random.randrange(1 << 30)) if long else "1")
    # In the background of a script Ctrl-C is ignored, and whatever is started there ignores it,
    # too: tests of Ctrl-C would pass without one.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Workers have to agree on names, which are in the environment of every child besides: those of
    compressed bytes would hold the time when they were made, or be too long for it."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > 60 else None


# Tests of a cluster stay on one worker: each would start its servers, and hurt those of the other.
CLUSTERS = ("cluster22", "cluster21", "cluster4")
# The groups by how long they take: the longest starts first, so that all workers end together.
# Tests of other groups follow, then the tests that any worker may run.
GROUPS = ("packaging", *CLUSTERS, "engine", "server")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a test into the group of the cluster or of the service that it uses."""
    fixtures = getattr(item, "fixturenames", ())
    for name in (*CLUSTERS, "hdfs", "azure"):
        if name in fixtures:
            item.add_marker(pytest.mark.xdist_group(name))
            return
    # Azurite takes 4 s of CPU to start on each worker; the scheme of a case asks for it, too.
    cases = getattr(item, "callspec", None)
    grouped = item.get_closest_marker("xdist_group") is not None
    if cases and "az" in map(str, cases.params.values()) and not grouped:
        item.add_marker(pytest.mark.xdist_group("azure"))


def _leave_out_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep some cases of tests that are marked as sampled: ``sampled(n)`` the first one and n - 1
    more, the last one among them; ``sampled`` a quarter, three at least.

    The same ones each time; ``make test-all`` runs them all.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = set[pytest.Item]()
    for all_ in cases.values():
        asked = next(all_[0].iter_markers("sampled")).args
        most = asked[0] if asked else max(3, len(all_) // 4)
        kept = {round(n * (len(all_) - 1) / max(1, most - 1)) for n in range(most)}
        left |= {item for n, item in enumerate(all_) if n not in kept}
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    gc.freeze()  # half a million objects, which each full collection would look at
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start the longest groups first; refuse to run where pytest-xdist keeps no groups together."""
    if "not long" in config.option.markexpr:
        _leave_out_cases(config, items)
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:  # a test of two groups, for which pytest-xdist makes a third one
        test, _, group = item.nodeid.partition("@")
        for cluster in set(group.split("_")).intersection(CLUSTERS):
            item._nodeid = f"{test}@{cluster}"
    apart = [i for i in items if i.get_closest_marker("xdist_group") and "@" not in i.nodeid]
    if apart:
        raise pytest.UsageError(f"pytest-xdist has put {apart[0].nodeid} into no group")

    def order(item: pytest.Item) -> int:
        group = item.nodeid.partition("@")[2]
        return GROUPS.index(group) if group in GROUPS else len(GROUPS) + (not group)

    items.sort(key=order)


@pytest.fixture(scope="session")
def s3() -> Iterator[Seaweed]:
    """The S3 service, started once; each test makes a bucket of its own. Never kill this one."""
    with Seaweed() as service:
        yield service


@pytest.fixture(scope="session")
def azure() -> Iterator[Azure]:
    """The Azure Blob service, started once; each test makes a container of its own."""
    with Azure() as service:
        yield service


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """The broker, started once; each test makes topics of its own. Never kill this one."""
    with Kafka() as service:
        yield service


@pytest.fixture(scope="session")
def google() -> Iterator[Google]:
    """The Google storage service, started once; each test makes a bucket of its own."""
    with Google() as service:
        yield service


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """One name node and one data node, started once; each test makes a folder of its own.

    A test that kills a node starts it again.
    """
    with Hdfs() as service:
        yield service


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    """The file server, started once; each test uses file names of its own."""
    with Web() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """The PostgreSQL server, started once; each test makes tables of its own.

    A test that kills it starts it again.
    """
    with PostgresqlServer() as service:
        yield service


@pytest.fixture(scope="session")
def clickhouse() -> Iterator[ClickHouse]:
    """The ClickHouse server, started once; each test makes a database of its own."""
    with ClickHouse() as service:
        yield service


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The MariaDB server, started once; each test makes a database of its own. Never kill it."""
    with MariaDB() as service:
        yield service


_clusters: dict[str, Cluster] = {}


@contextlib.contextmanager
def _cluster(name: str, shards: int, replicas: int) -> Iterator[Cluster]:
    with Cluster.start(shards, replicas) as cluster:
        _clusters[name] = cluster
        yield cluster


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a cluster after the last test of its group, not after all tests: each of ten servers
    that nobody asks takes 0.5 % of a core."""
    group = item.nodeid.rpartition("@")[2]
    if nextitem is not None and group in _clusters and not nextitem.nodeid.endswith(f"@{group}"):
        _clusters.pop(group).stop()


@pytest.fixture(scope="session")
def cluster22() -> Iterator[Cluster]:
    """Two shards of two replicas, started once; each test makes databases of its own.

    A test that kills a node starts it again.
    """
    with _cluster("cluster22", 2, 2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster21() -> Iterator[Cluster]:
    """Two shards without replicas, for tests that are not about replicas."""
    with _cluster("cluster21", 2, 1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster4() -> Iterator[Cluster]:
    """Four shards without replicas, after the same manner."""
    with _cluster("cluster4", 4, 1) as cluster:
        yield cluster


_ROWFALL = (sys.executable, "-m", "rowfall")


@contextlib.contextmanager
def _as_process(
    environment: Mapping[str, str], cwd: Path, out: IO[bytes], err: IO[bytes]
) -> Iterator[None]:
    """Be a process with this environment and folder, whose stdout and stderr are files."""
    before, folder = dict(os.environ), os.getcwd()
    kept = [os.dup(fd) for fd in (1, 2)]
    streams = sys.stdin, sys.stdout, sys.stderr
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in ends}
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        with (
            open(os.devnull) as sys.stdin,
            open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
            open(2, "w", encoding="utf-8", closefd=False) as sys.stderr,
        ):
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
        for fd, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, fd)
            os.close(copy)


def run_inside(arguments: list[str]) -> int:
    """Run a command as :func:`rowfall.cli.main` does, without the end of the process."""
    prestart.prestart_early(arguments)
    try:
        return app.run(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        while prestart._waiting:  # a process takes with it what it has not used
            child = prestart._waiting.pop()
            child.process.kill()
            child.process.wait()
            for pipe in (child.stdin, child.stdout, child.stderr):
                pipe.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "surrogateescape")


class Cli:
    """Runs ``rowfall`` as its own process, with a home that belongs to this test alone.

    Attributes:
        program: the command.
    """

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.cwd = cwd
        self.program: Sequence[str] = _ROWFALL
        self._started: list[subprocess.Popen[str]] = []

    def __call__(
        self,
        *args: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str | None = None,
        timeout: float = 100,  # below the test timeout, so that the output is shown
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; the exit code is the test's to judge."""
        return subprocess.run(
            self._command(args),
            cwd=cwd or self.cwd,
            env=self._environment(env),
            stdin=subprocess.DEVNULL if stdin is None else None,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )

    @property
    def plain(self) -> bool:
        """Return whether the command is the program itself and may run in this process."""
        return self.program is _ROWFALL and threading.current_thread() is threading.main_thread()

    def inside(
        self, *args: str | os.PathLike[str], env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end in this process, which spares the start of Python and all imports.

        Everything else is as in a process of its own: environment, current folder, descriptors 1
        and 2, the exit code. Only where it is :attr:`plain`.
        """
        assert self.plain
        command = self._command(args)[len(self.program) :]
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            _as_process(self._environment(env), self.cwd, out, err),
        ):
            code = run_inside(command)
            texts = [_text(file) for file in (out, err)]
        return subprocess.CompletedProcess(command, code, *texts)

    def start(
        self,
        *args: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        program: Sequence[str] = (),
    ) -> subprocess.Popen[str]:
        """Start and return at once: for tests that interrupt or kill. Ended after the test."""
        process = subprocess.Popen(
            self._command(args, program),
            cwd=cwd or self.cwd,
            env=self._environment(env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()

    def _command(
        self, args: tuple[str | os.PathLike[str], ...], program: Sequence[str] = ()
    ) -> list[str]:
        return [*(program or self.program), *(os.fspath(arg) for arg in args)]

    def _environment(self, extra: Mapping[str, str] | None) -> dict[str, str]:
        # Nothing of the user's own clouds or configuration may reach a test.
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AWS_", "ROWFALL_", "XDG_", "CLICKHOUSE_"))
        }
        home = str(self.home)
        own = {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
        return {**kept, **own, "AWS_EC2_METADATA_DISABLED": "true", **(extra or {})}


@pytest.fixture
def rowfall(tmp_path: Path) -> Iterator[Cli]:
    """``rowfall("load", path)`` as a subprocess; gives returncode, stdout and stderr."""
    home, cwd = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    cwd.mkdir()
    cli = Cli(home, cwd)
    try:
        yield cli
    finally:
        cli.close()
