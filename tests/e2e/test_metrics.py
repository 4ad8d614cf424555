"""``--metrics-port``: what a scrape of a load and of a followed topic shows."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

import rowfall
from e2e.tools import Shell
from lab.kafka import Kafka
from lab.process import free_ports, wait_until
from rowfall.core.events import Event, LoadEnded, Note

LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def scrape(url: str) -> dict[str, float]:
    """Samples by ``name{label="value",...}``."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        f"{name}{{{labels}}}" if labels else name: float(value)
        for name, labels, value in LINE.findall(text)
    }


def url_of(process: subprocess.Popen[str]) -> str:
    """The address that a command says; its stderr is read on, so that it never waits for us."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"metrics: (http://\S+)", line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError("no address")


def test_a_load_is_scraped(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its last event, when all of it was counted."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"id,name\n{number},x\n{number + 10},y\n")
    (tmp_path / "bad.csv").write_text("id,name\nx,y\n")
    seen: list[dict[str, float]] = []
    url = ""

    def listen(event: Event) -> None:
        nonlocal url
        if isinstance(event, Note) and event.text.startswith("metrics: "):
            url = event.text.removeprefix("metrics: ")
        if isinstance(event, LoadEnded):
            seen.append(scrape(url))

    with pytest.raises(rowfall.LoadError):
        rowfall.load("*.csv", table="scraped", schema="id UInt32, name String", to="data",
                     metrics_port=0, on_event=listen)  # fmt: skip
    (found,) = seen
    of = 'table="default.scraped"'  # of no other load of this process
    assert found[f"rowfall_rows_total{{{of}}}"] == 6
    assert found[f'rowfall_files_total{{result="loaded",{of}}}'] == 3
    assert found[f'rowfall_files_total{{result="failed",{of}}}'] == 1
    assert found[f"rowfall_bytes_total{{{of}}}"] == sum(
        (tmp_path / f"{n}.csv").stat().st_size for n in range(3)
    )
    errors = {k: v for k, v in found.items() if k.startswith("rowfall_errors_total") and of in k}
    assert errors.pop(f'rowfall_errors_total{{code="0",exit="4",of="file",{of}}}') == 1
    assert all('of="attempt"' in k and 'exit="6"' in k for k in errors)
    for stage in ("plan", "prepare", "attempts", "finish", "deliver", "publish"):
        assert found[f'rowfall_stage_seconds_total{{stage="{stage}",{of}}}'] > 0
    assert not any("csv" in k for k in found), "no names of files"


def test_the_port_is_no_part_of_what_is_resumed(shell: Shell) -> None:
    """A resumed load listens nowhere: its first process may be running still."""
    shell.write("a.csv", "id\n1\n")
    shell.write("b.csv", "id\nx\n")
    command = ("load", "*.csv", "--schema", "id UInt32", "--table", "t")
    failed = shell.run(*command, "--metrics-port", "0")
    assert failed.code == 1
    assert "note: metrics: http://127.0.0.1:" in failed.err
    shell.write("b.csv", "id\n2\n")
    assert "metrics" not in shell.ok("resume").err


def test_bad_ports_are_refused_before_the_load(shell: Shell) -> None:
    shell.write("t.csv", "a\n1\n")
    assert shell.run("load", "t.csv", "--metrics-port", "70000").code == 2
    with _Taken() as port:
        refused = shell.run("load", "t.csv", "--metrics-port", str(port))
    assert refused.code == 2
    assert f"cannot serve metrics on 127.0.0.1:{port}: Address already in use" in refused.err
    assert shell.ok("status").out == "no loads yet\n"


class _Taken:
    """A port of somebody else."""

    def __enter__(self) -> int:
        import socket

        self._socket = socket.create_server(("127.0.0.1", 0))
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.mark.long  # a process that follows a folder
def test_a_followed_folder_is_scraped(shell: Shell) -> None:
    (shell.folder / "in").mkdir()
    shell.write("in/a.csv", "id\n1\n")
    process = shell.cli.start("load", "in/*.csv", "--table", "t", "--follow",
                              "--metrics-port", "0")  # fmt: skip
    url = url_of(process)
    of = 'table="default.t"'

    def shows(name: str, holds: Callable[[float], bool]) -> None:
        wait_until(lambda: holds(scrape(url).get(name, -1)), 60, f"{name}: {scrape(url)}")

    shows(f'rowfall_files_total{{result="loaded",{of}}}', lambda files: files == 1)
    for name in ("c", "b"):
        (shell.folder / f"{name}.new").write_text("id\n2\n3\n")
        (shell.folder / f"{name}.new").rename(shell.folder / f"in/{name}.csv")
    shows(f"rowfall_rows_total{{{of}}}", lambda rows: rows == 5)
    shows(f"rowfall_lag_objects{{{of}}}", lambda lag: lag == 0)
    polled = scrape(url)[f"rowfall_last_poll_timestamp_seconds{{{of}}}"]
    shows(f"rowfall_last_poll_timestamp_seconds{{{of}}}", lambda at: at > polled)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


@pytest.mark.long  # a process that follows a folder
def test_a_pipeline_is_scraped_by_its_name(shell: Shell) -> None:
    """With a file that cannot be loaded among others, which does not end it."""
    (port,) = free_ports(1)
    (shell.folder / "in").mkdir()
    shell.write("in/a.csv", "id\n1\n")
    shell.write("in/b.csv", "id\nx\n")
    shell.write(
        "rowfall.toml",
        f"""[pipelines.clicks]
source = "in/*.csv"
table = "t"
schema = "id UInt32"
metrics_port = {port}
""",
    )
    process = shell.cli.start("watch", "clicks")
    url = url_of(process)
    of = 'pipeline="clicks",table="default.t"'
    for result in ("loaded", "failed"):
        name = f'rowfall_files_total{{pipeline="clicks",result="{result}",table="default.t"}}'
        wait_until(lambda name=name: scrape(url).get(name) == 1, 60, name)
    wait_until(lambda: scrape(url).get(f"rowfall_lag_objects{{{of}}}") == 0, 60, "no lag")
    assert scrape(url)[f"rowfall_rows_total{{{of}}}"] == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.long  # a broker, and a process that follows it
def test_a_followed_topic_is_scraped(shell: Shell, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, [b'{"id": %d}' % n for n in range(100)], 0)
    (port,) = free_ports(1)
    process = shell.cli.start("load", f"kafka://{kafka.servers}/{topic}", "--format", "NDJSON",
                              "--table", "t", "--follow", "--metrics-port", str(port))  # fmt: skip
    url = url_of(process)
    assert url == f"http://127.0.0.1:{port}/metrics"
    of, lag = 'table="default.t"', f'partition="1",table="default.t",topic="{topic}"'

    def shows(name: str, holds: Callable[[float], bool]) -> None:
        wait_until(lambda: holds(scrape(url).get(name, -1)), 60, f"{name}: {scrape(url)}")

    shows(f"rowfall_rows_total{{{of}}}", lambda rows: rows == 100)
    shows(f'rowfall_loads_total{{outcome="done",{of}}}', lambda loads: loads == 1)
    shows(f"rowfall_lag_objects{{{of}}}", lambda lag: lag == 0)
    kafka.send(topic, [b'{"id": %d}' % n for n in range(50)], 1)
    shows(f"rowfall_lag_offsets{{{lag}}}", lambda messages: messages == 50)
    shows(f"rowfall_rows_total{{{of}}}", lambda rows: rows == 150)
    shows(f"rowfall_lag_offsets{{{lag}}}", lambda messages: messages == 0)
    found = scrape(url)
    assert found[f"rowfall_load_duration_seconds_count{{{of}}}"] == 2
    polled = found[f"rowfall_last_poll_timestamp_seconds{{{of}}}"]
    shows(f"rowfall_last_poll_timestamp_seconds{{{of}}}", lambda at: at > polled)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
