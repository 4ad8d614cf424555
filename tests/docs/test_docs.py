"""README and docs: every runnable block runs, outputs are as printed, links and commands exist."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.clickhouse import ClickHouse, binary
from lab.seaweed import Seaweed
from rowfall.cli.app import COMMANDS
from rowfall.core.options import LOAD, PLAN, flags_of
from rowfall.core.uri import scheme_of
from rowfall.lab.cluster import Lab
from rowfall.sources import REGISTRY

ROOT = Path(__file__).parents[2]
FOLDERS_OF_PAGES = ("docs", "examples")
PAGES = [page for folder in FOLDERS_OF_PAGES for page in (ROOT / folder).rglob("*.md")]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("*.md"), *PAGES])
PAGES = list(dict.fromkeys(PAGES))
FOLDERS = ("src", "tests", "bench", "docs", "crates/rowfall-decode/src")
ENDPOINT, BUCKET = "http://127.0.0.1:9000", "lake"
SERVER = "clickhouse://loader@localhost/lake"
LAB = "127.0.0.1:13362"
KAFKA = "127.0.0.1:9092"
POSTGRESQL = ("reader@127.0.0.1:5432/shop", "loader@127.0.0.1:5432/shop")
MARIADB = "loader@127.0.0.1:3306/shop"
HDFS, HDFS_HTTP = "etl@127.0.0.1:8020", "?http=9870"

# Files that a reader has and a page cannot make.
GIVEN = {"README.md": {"sales.csv": "id,city,amount\n1,Oslo,12.5\n2,Bern,7\n3,Lima,9.25\n"}}

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>s3|prints|exit \d+) -->\n)?```(?P<kind>[a-z]+)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|rs|sql))`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``prints`` is what it has to write to stdout, None for whatever."""

    line: int
    kind: str
    text: str
    exit: int = 0
    s3: bool = False
    prints: str | None = None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The sh and python blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        mark = match["mark"] or ""
        line = text.count("\n", 0, match.start()) + 1
        if mark == "prints":
            last = found.pop()
            found.append(Block(last.line, last.kind, last.text, last.exit, last.s3, match["text"]))
        elif match["kind"] in ("sh", "python"):
            code = int(mark.removeprefix("exit ")) if mark.startswith("exit") else 0
            found.append(Block(line, match["kind"], match["text"], code, mark == "s3"))
    return found


RUNNABLE = [page for page in PAGES if blocks(page)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of the user's own clouds or ledgers; ``rowfall`` is this one."""
    foreign = ("AWS_", "AZURE_", "GOOGLE_", "GS_", "ROWFALL_", "XDG_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    own = {"HOME": str(tmp_path / "home"), "ROWFALL_HOME": str(tmp_path / "home/state")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, **own, "PATH": path, "AWS_EC2_METADATA_DISABLED": "true"}


def run_when(page: Path) -> Any:
    """A page that needs a broker, a database or a name node is not run in the gate; otherwise by
    the worker that has this service, as a name node takes 20 s to start."""
    text = page.read_text(encoding="utf-8")
    services = ((HDFS, "hdfs"), (KAFKA, "kafka"), (MARIADB, "mysql"),
                *((database, "postgresql") for database in POSTGRESQL))  # fmt: skip
    group = next((group for service, group in services if service in text), "")
    marks = [pytest.mark.long, pytest.mark.xdist_group(group)] if group else []
    return pytest.param(page, marks=marks, id=name_of(page))


@pytest.mark.parametrize("page", [run_when(page) for page in RUNNABLE])
@pytest.mark.sampled(3)
def test_examples_run(
    page: Path, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "home").mkdir()
    for name, text in GIVEN.get(name_of(page), {}).items():
        (work / name).write_text(text, encoding="utf-8")
    replaced: dict[str, str] = {}
    if any(block.s3 for block in blocks(page)):
        service: Seaweed = request.getfixturevalue("s3")
        bucket = f"docs-{page.stem.lower()}"
        service.create_bucket(bucket)
        replaced = {ENDPOINT: service.endpoint, f"s3://{BUCKET}/": f"s3://{bucket}/"}
        keys = {k: v for k, v in service.env.items() if k != "AWS_ENDPOINT_URL"}
        environment = {**environment, **keys}
    if any(SERVER in block.text for block in blocks(page)):
        server: ClickHouse = request.getfixturevalue("clickhouse")
        server.query("CREATE DATABASE IF NOT EXISTS lake")
        replaced[SERVER] = f"clickhouse://{server.user}@127.0.0.1:{server.http_port}/lake"
        environment = {**environment, "ROWFALL_PASSWORD": server.password}
    if any(KAFKA in block.text for block in blocks(page)):
        replaced[KAFKA] = request.getfixturevalue("kafka").servers
    for database in POSTGRESQL:
        if not any(database in block.text for block in blocks(page)):
            continue
        base = request.getfixturevalue("postgresql")
        replaced[database] = base.uri.removeprefix("postgresql://")
        environment = {**environment, "PGPASSWORD": base.password}
    if any(MARIADB in block.text for block in blocks(page)):
        maria = request.getfixturevalue("mariadb")
        maria.query("CREATE OR REPLACE DATABASE shop")
        replaced[MARIADB] = f"{maria.user}@127.0.0.1:{maria.port}/shop"
        environment = {**environment, "MYSQL_PWD": maria.password}
    if any(HDFS in block.text for block in blocks(page)):
        nodes = request.getfixturevalue("hdfs")
        for n in range(2):
            nodes.put(f"/warehouse/trips/{n}.csv", f"id,miles\n{n},1\n{n + 2},4\n".encode())
        replaced |= {HDFS: f"{nodes.superuser}@127.0.0.1:{nodes.rpc}", HDFS_HTTP: nodes.query}
    if LAB in page.read_text(encoding="utf-8"):
        work = request.getfixturevalue("lab_work")
        environment = {**environment, "ROWFALL_CLICKHOUSE": str(binary())}
    with python_blocks_see(environment, work) as run_python:
        for block in blocks(page):
            if Lab.within(work / "rowfall-lab"):
                replaced[LAB] = Lab.open(work / "rowfall-lab").nodes[0].address
            where = f"{name_of(page)}:{block.line}"
            text = block.text
            for old, new in replaced.items():
                text = text.replace(old, new)
            if block.kind == "python":
                printed = run_python(text, where)
            else:
                printed = run_shell(text, block, work, environment, where)
            if block.prints is not None:
                assert printed == block.prints, where


@pytest.fixture
def lab_work() -> Iterator[Path]:
    """A folder that the lab's servers may enter; what is left of the lab in it is ended."""
    work = Path(tempfile.mkdtemp(prefix="rowfall-docs-"))
    work.chmod(0o711)
    yield work
    if Lab.within(work / "rowfall-lab"):
        Lab.open(work / "rowfall-lab").down()
    shutil.rmtree(work)


def run_shell(
    text: str, block: Block, work: Path, environment: Mapping[str, str], where: str
) -> str:
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],  # noqa: S607 - the shell of the examples
        cwd=work,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == block.exit, f"{where}\n{text}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@contextlib.contextmanager
def python_blocks_see(environment: Mapping[str, str], work: Path) -> Iterator[object]:
    """Python blocks of a page share their names, as they would in one session."""
    names: dict[str, object] = {"__name__": "docs"}
    before, folder = dict(os.environ), Path.cwd()

    def run(text: str, where: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, where, "exec"), names)  # noqa: S102 - our own pages
        return out.getvalue()

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(work)
    try:
        yield run
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def test_guides_are_run() -> None:
    """A guide whose blocks were marked wrongly would be tested by nothing."""
    run = {name_of(page) for page in RUNNABLE}
    guides = {name_of(page) for page in (ROOT / "docs/guides").glob("*.md")}
    assert {"README.md", *guides} <= run


def anchor(heading: str) -> str:
    """The anchor that the usual renderers make of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", text, re.M)}


def test_no_page_and_no_test_is_empty() -> None:
    """A merge that goes wrong leaves such files, and nothing else fails without them."""
    tests = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("crates/*/tests/*.rs")]
    assert [name_of(path) for path in [*PAGES, *tests] if path.stat().st_size < 100] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in _LINK.findall(text):
        if "://" in link:
            continue
        file, _, part = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if part:
            assert part in anchors(target), f"{name_of(page)}: {link}"


@functools.cache
def files_of_the_project() -> frozenset[str]:
    return frozenset(str(p) for folder in FOLDERS for p in (ROOT / folder).rglob("*.*"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_source_files_that_are_named_exist(page: Path) -> None:
    """Pages name files as ``room/file.py``; one that was renamed or merged is named no more."""
    for file in _FILE.findall(page.read_text(encoding="utf-8")):
        found = any(path.endswith(f"/{file}") for path in files_of_the_project())
        assert found, f"{name_of(page)}: {file}"


def test_the_examples_of_imports_are_commands() -> None:
    lines = re.findall(r"`rowfall load (.*?)`", (ROOT / "examples/imports.md").read_text())
    assert len(lines) == 13
    known = {"--table"} | {flag for _, option in flags_of(LOAD) for flag in option.flags}
    for line in lines:
        source, *options = shlex.split(line)
        assert scheme_of(source) in REGISTRY, line
        assert {option for option in options if option.startswith("--")} <= known, line


def test_every_command_is_documented() -> None:
    prose = "".join(page.read_text(encoding="utf-8") for page in RUNNABLE)
    for name in COMMANDS:
        assert f"rowfall {name}" in prose, name


def test_every_option_is_documented() -> None:
    prose = "".join(p.read_text(encoding="utf-8") for p in PAGES if "reference" not in p.parts)
    for command in (LOAD, PLAN):
        for _, flag in flags_of(command):
            assert flag.flags[0] in prose, flag.flags[0]


def test_commands_in_the_docs_exist() -> None:
    """``rowfall frobnicate`` in a page is a typo or a promise that nobody keeps."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for code in re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.M | re.S):
            for name in re.findall(r"(?:^|[|;] *|bin/)rowfall ([a-z]+)", code, re.M):
                assert name in COMMANDS, f"{name_of(page)}: rowfall {name}"
