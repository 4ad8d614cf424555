"""A server that may be hurt, rounds by seed, and a count of what was survived.

``ROWFALL_FAULT_ROUNDS`` is the number of rounds of each random test (see :mod:`faults.kills`),
``ROWFALL_FAULT_SEED`` what they are drawn from: with the same seed, a round does the same.
"""

from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from faults.kills import SEED
from faults.places import Create, Loader, Make, Place
from faults.scene import Scene
from lab.clickhouse import Account, ClickHouse
from lab.rows import Rows, create_target, make_rows
from lab.seaweed import Seaweed

_SURVIVED = "survived"

Survived = Callable[[str], None]


def pytest_report_header() -> str:
    return f"faults: seed {os.environ[SEED]}"


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test, the same for the same seed."""
    seed = os.environ[SEED]
    print(f"{SEED}={seed}")  # noqa: T201 - shown by pytest when the test fails
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture
def survived(record_property: Callable[[str, object], None]) -> Survived:
    """``survived("kill -9 rowfall")``: counted when the test passes."""
    return lambda kind: record_property(_SURVIVED, kind)


@pytest.fixture(scope="session")
def server() -> Iterator[ClickHouse]:
    """One that may be killed; a scene that begins starts it again."""
    with ClickHouse() as server:
        yield server


@pytest.fixture(scope="session")
def rows(server: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Three attempts of a load, of which two run at once."""
    folder = tmp_path_factory.mktemp("rows") / "files"
    return make_rows(server, folder, files=6, rows=60_000)


@pytest.fixture(scope="session")
def few(server: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Two files: two attempts."""
    return make_rows(server, tmp_path_factory.mktemp("few") / "files", files=2, rows=3000)


@pytest.fixture(scope="session")
def plain(rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The same files, none compressed: rowfall-decode reads all of them."""
    folder = tmp_path_factory.mktemp("plain")
    for name, body in rows.bodies().items():
        text = gzip.decompress(body) if name.endswith(".gz") else body
        (folder / name.removesuffix(".gz")).write_bytes(text)
    return replace(rows, folder=folder, names=[n.removesuffix(".gz") for n in rows.names])


@pytest.fixture(scope="session")
def bucket(rows: Rows) -> Iterator[Seaweed]:
    """An S3 service that may be killed, with the files in the bucket ``files``."""
    with Seaweed() as service:
        rows.put(service, "files")
        yield service


@pytest.fixture
def place(server: ClickHouse, rows: Rows, tmp_path: Path) -> Iterator[Make]:
    """``place("--atomic")``: a scene whose loads have these options."""
    made: list[Place] = []

    def make(
        *options: str, create: Create = create_target, on: ClickHouse = server,
        account: Account | None = None, s3: Seaweed | None = None, of: Rows = rows,
    ) -> Place:  # fmt: skip
        home = tmp_path / f"home{len(made)}"
        home.mkdir()
        sources: Sequence[str] = ["s3://files/*"] if s3 else [f"{of.folder}/*"]
        env = {**s3.env, "AWS_ENDPOINT_URL": s3.endpoint} if s3 else None
        loader = Loader(on, home, sources, *options, env=env, account=account)
        made.append(Place(Scene(on, of, loader, create), loader))
        return made[-1]

    yield make
    for each in made:
        each.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        counts.update(str(kind) for name, kind in report.user_properties if name == _SURVIVED)
    if not counts:
        return
    width = max(map(len, counts))
    terminalreporter.section("faults survived")
    for kind, count in sorted(counts.items()):
        terminalreporter.write_line(f"{kind:{width}}  {count:6,}")
    terminalreporter.write_line(f"{'all':{width}}  {counts.total():6,}")
    terminalreporter.write_line(f"seed {os.environ[SEED]}: {SEED}={os.environ[SEED]} repeats it")
