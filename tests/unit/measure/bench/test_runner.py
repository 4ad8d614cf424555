"""``rowfall bench``: methods in turns, results row by row, and what cannot run."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowfall.core.bench_results import BY_HAND, ROWFALL, BenchReport, BenchRound
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.events import Event, Note, silent
from rowfall.measure.bench import places, runner
from rowfall.measure.bench.places import Places, UnavailableError, parse_services
from rowfall.measure.bench.published import A1_ALL, A1_SINGLESTORE
from rowfall.measure.bench.runner import BenchRequest, parse_articles, parse_scale, run_bench
from rowfall.measure.bench.ways import ArticleTable, BenchWorkshop, Method
from rowfall.report.bench import bench_document

ROWS = 1_000


def done(wall: float = 1.0, rows: int = ROWS) -> BenchRound:
    return BenchRound(wall, 2 * wall, 0.5, 1 << 20, rows)


@pytest.fixture
def asked(tmp_path: Path) -> BenchRequest:
    return BenchRequest(("A1",), 0.002, 3, 0.0, tmp_path / "bench", {})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace A1 by two methods that note when they run."""
    found: list[str] = []

    def once(name: str, wall: float) -> Callable[[], BenchRound]:
        def run() -> BenchRound:
            found.append(name)
            return done(wall)

        return run

    use(monkeypatch, Method("hand", BY_HAND, once("hand", 4.0), A1_ALL),
        Method("rowfall", ROWFALL, once("rowfall", 2.0)))  # fmt: skip
    return found


def use(monkeypatch: pytest.MonkeyPatch, *methods: Method) -> None:
    def comparisons(_: BenchWorkshop) -> Iterator[ArticleTable]:
        yield ArticleTable("A1", "one", ROWS, methods)

    monkeypatch.setattr(runner, "ARTICLES", {**runner.ARTICLES, "A1": comparisons})


def run(request: BenchRequest) -> BenchReport:
    return run_bench(request, silent, bench_document)


def saved(request: BenchRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((request.folder / "results.json").read_text())
    return found


# --- what is asked for ---------------------------------------------------------------------------


def test_articles_are_named_in_any_order_and_case() -> None:
    assert parse_articles(("a4", "A1")) == ("A1", "A4")
    assert parse_articles(("all",)) == ("A1", "A2", "A3", "A4", "A5")


@pytest.mark.parametrize(
    ("names", "said", "hint"),
    [
        (("A11",), "no article is called A11", "Did you mean A1?"),
        (("al",), "no article is called al", "Did you mean all?"),
        ((), "no article is named", "rowfall bench all"),
    ],
)
def test_articles_that_are_none(names: tuple[str, ...], said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse_articles(names)
    assert hint in str(caught.value.hint)


def test_scales() -> None:
    assert (parse_scale("full"), parse_scale("SMALL"), parse_scale("0.25")) == (1.0, 0.1, 0.25)


@pytest.mark.parametrize("text", ["smal", "0", "-1", "nan", "inf", ""])
def test_scales_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_scale(text)


def test_services_that_are_none() -> None:
    assert parse_services(["kafka=h:9"]) == {"kafka": "h:9"}
    with pytest.raises(UsageError) as caught:
        parse_services(["postgres=postgresql://u:secret@h/d"])
    assert "secret" not in str(caught.value)
    assert "Did you mean postgresql?" in str(caught.value.hint)


# --- turns and results ---------------------------------------------------------------------------


def test_methods_take_turns_and_each_round_is_written(
    asked: BenchRequest, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def say(event: Event) -> None:
        if isinstance(event, Note) and (asked.folder / "results.json").exists():
            written.append(sum(len(row["rounds"]) for row in saved(asked)["rows"]))

    run_bench(asked, say, bench_document)
    assert calls == ["hand", "rowfall"] * 3
    assert written == [1, 2, 3, 4, 5]  # the note of a round comes before it is written
    hand, ours = saved(asked)["rows"]
    assert hand["published"]["rows_per_vcpu_second"] == pytest.approx(100e9 / 1115.4 / 32)
    assert (hand["seconds"], hand["cpu_seconds"], ours["times"]) == (4.0, 8.5, 2.0)


def test_the_same_command_goes_on(asked: BenchRequest, calls: list[str]) -> None:
    run(replace(asked, rounds=1))
    run(asked)
    run(asked)
    assert calls == ["hand", "rowfall"] * 3
    run(replace(asked, fresh=True, rounds=1))
    assert calls == ["hand", "rowfall"] * 4


def test_ctrl_c_keeps_what_is_done(asked: BenchRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([done(), KeyboardInterrupt()])

    def once() -> BenchRound:
        found = next(rounds)
        if isinstance(found, BaseException):
            raise found
        return found

    use(monkeypatch, Method("hand", BY_HAND, once))
    (asked.folder / "data").mkdir(parents=True)
    assert "the same command goes on" in run(asked).stopped
    (row,) = saved(asked)["rows"]
    assert len(row["rounds"]) == 1
    assert sorted(path.name for path in asked.folder.iterdir()) == ["results.json"]


def test_what_cannot_run_says_why_and_the_rest_goes_on(
    asked: BenchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_service() -> BenchRound:
        raise UnavailableError("no broker is known")

    def fails() -> BenchRound:
        raise runner.BenchError("exit code 1\nTraceback ...\nrowfall: error: no such file\nx")

    use(monkeypatch, Method("a", BY_HAND, no_service), Method("b", BY_HAND, fails),
        Method("c", ROWFALL, lambda: done(rows=999)), Method("d", ROWFALL, done))  # fmt: skip
    rows = {row.method: row for row in run(asked).rows}
    assert rows["a"].why == "no broker is known"
    assert rows["b"].why == "failed: rowfall: error: no such file"
    assert rows["c"].why == "failed: 999 rows are there instead of 1,000"
    assert [len(rows[name].rounds) for name in "abcd"] == [0, 0, 0, 3]


def test_a_budget_ends_an_article(
    asked: BenchRequest, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    found = run(replace(asked, budget=15.0))
    assert calls == ["hand"]
    assert [bool(row.rounds) for row in found.rows] == [True, False]
    assert "used up" in found.rows[1].why


def test_results_of_another_scale_are_not_mixed(asked: BenchRequest, calls: list[str]) -> None:
    run(replace(asked, rounds=1))
    with pytest.raises(UsageError, match=r"holds results of the scale 0\.002, not 0\.1"):
        run(replace(asked, scale=0.1))


@pytest.mark.parametrize("text", ["", "[]", '{"rowfall_bench": 2}', '{"rowfall_bench": 1}'])
def test_results_that_are_none(asked: BenchRequest, calls: list[str], text: str) -> None:
    asked.folder.mkdir(parents=True)
    (asked.folder / "results.json").write_text(text)
    with pytest.raises(UsageError, match="holds no results of this version") as caught:
        run(asked)
    assert "--fresh" in str(caught.value.hint)
    assert calls == []


# --- machines that are too small -----------------------------------------------------------------


def test_a_disk_that_is_too_small(
    asked: BenchRequest, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(TargetError, match=r"takes up to 1\.51 GB .* 1\.00 GB are free"):
        run(asked)
    assert calls == []


def test_too_little_memory(
    asked: BenchRequest, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "free_memory", lambda: 1 << 30)
    with pytest.raises(UsageError, match=r"6\.00 GiB of memory, and 1\.00 GiB are free"):
        run(asked)


@pytest.mark.parametrize("folder", ["/proc/bench", "/dev/null/bench"])
def test_a_folder_that_cannot_be_written(
    asked: BenchRequest, calls: list[str], folder: str
) -> None:
    with pytest.raises(TargetError, match=f"results into {folder}") as caught:
        run(replace(asked, folder=Path(folder)))
    assert "--folder" in str(caught.value.hint)


# --- services ------------------------------------------------------------------------------------


def test_no_services_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("find_clickhouse", "find_weed", "find_mariadb", "find_postgresql"):
        monkeypatch.setattr(places, name, lambda: None)
    none = Places(tmp_path, {}, 1 << 30)
    for ask in (none.s3, none.postgresql, none.mysql, none.singlestore, none.kafka, none.hdfs,
                lambda: none.cluster(2)):  # fmt: skip
        with pytest.raises(UnavailableError, match="no ") as caught:
            ask()
        assert "\n" not in caught.value.message


def test_a_given_service_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    given = {"kafka": f"127.0.0.1:{port}", "singlestore": f"mysql://u:p@127.0.0.1:{port}/d"}
    for ask in (Places(tmp_path, given, 1).kafka, Places(tmp_path, given, 1).singlestore):
        with pytest.raises(UnavailableError, match=f"does not answer at 127.0.0.1:{port}"):
            ask()


def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not below pytest's folder, which the user of the servers may not enter.
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("rowfall.lab.cluster.free_ports", lambda count: [port] * count)
        monkeypatch.setattr(places, "find_clickhouse", lambda: Path("/bin/true"))
        Path(name).chmod(0o755)
        found = Places(Path(name), {}, 1 << 30)
        with pytest.raises(UnavailableError, match=f"port {port} of 127.0.0.1 is taken"):
            found.cluster(1)


def test_services_end_in_reverse_also_where_one_fails(tmp_path: Path) -> None:
    ended: list[int] = []
    found = Places(tmp_path, {}, 1)
    for number in range(3):
        found.at_end(lambda n=number: ended.append(n) if n != 1 else 1 / 0)  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        found.close()
    assert ended == [2, 0]


def test_published_figures() -> None:
    assert A1_ALL.per_vcpu == pytest.approx(2.8e6, rel=0.01)
    assert A1_SINGLESTORE.per_vcpu == pytest.approx(0.6e6, rel=0.01)
