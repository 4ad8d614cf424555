"""The command line: help, exit codes, what goes to which stream, and what is imported."""

from __future__ import annotations

import inspect
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import rowfall
from rowfall.cli.app import ALL_TOPICS, COMMANDS, cli, run
from rowfall.core import errors, events
from rowfall.core.errors import Exit
from rowfall.core.options import MAIN, Options, flags_of
from rowfall.core.results import Failure, Report, Verification

SRC = Path(rowfall.__file__).parents[1]
REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
MADE = runpy.run_path(str(REFERENCE.parent / "make_reference.py"))
PAGES = MADE["PAGES"]
DONE = Report(
    "3f2a9c1e77aa", "done", "x.csv", "./rowfall-data", "default.t", "2026-11-21T09:14:05Z"
)
PARTIAL = Report(
    "77aa", "partial", "x.csv", "./rowfall-data", "default.t", "2026-11-21T09:14:05Z",
    failures=(Failure("x.csv", "gone", "Put it back."),),
)  # fmt: skip


class Api(ModuleType):
    """Stands in for rowfall.api; remembers how it was called."""

    def __init__(self) -> None:
        super().__init__("rowfall.api")
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            answer = self.answers.get(name)
            if isinstance(answer, BaseException):
                raise answer
            return answer(**kwargs) if callable(answer) else answer

        return call


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    fake = Api()
    monkeypatch.setitem(sys.modules, "rowfall.api", fake)
    monkeypatch.setattr(rowfall, "api", fake, raising=False)
    monkeypatch.delenv("ROWFALL_DEBUG", raising=False)
    return fake


Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_option_of_the_table(name: str, capsys: Captured) -> None:
    assert run([name, "--help", *([ALL_TOPICS] if name in MANY else [])]) == Exit.DONE
    text = capsys.readouterr().out
    for item, flag in flags_of(name):
        assert flag.flags[0] in text, item.name
        assert f"{flag.group} options:" in text
    for common in ("--json", "--quiet", "--verbose", "--no-color", "--debug"):
        assert common in text
    assert max(map(len, text.split("\n"))) <= 80
    assert "  SOURCE" not in text.partition("General options:")[2]


MANY = ("load", "run", "plan", "scale", "doctor", "tune")


@pytest.mark.parametrize("name", MANY)
def test_help_of_a_command_with_many_options_is_short(name: str, capsys: Captured) -> None:
    assert run([name, "--help"]) == Exit.DONE
    text = capsys.readouterr().out
    assert text.count("\n") < 100
    words = set(text.split())  # one option may begin as another one does
    listed = [item.name for item, flag in flags_of(name) if {flag.flags[0]} & words]
    assert set(listed) == MAIN & {item.name for item, _ in flags_of(name)}
    listed_topics = " ".join(text.rpartition("TOPIC is")[2].split())
    topics = listed_topics.replace(" or ", ", ").strip(".").split(", ")
    seen = set()
    for topic in topics:
        assert run([name, "--help", topic]) == Exit.DONE
        by_option = capsys.readouterr().out
        assert run(["help", name, topic]) == Exit.DONE
        assert capsys.readouterr().out == by_option
        seen |= {item.name for item, flag in flags_of(name) if f"  {flag.flags[0]}" in by_option}
    assert seen == {item.name for item, _ in flags_of(name)}


def test_help_lists_every_command(capsys: Captured) -> None:
    assert run(["--help"]) == Exit.DONE
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_says_what_it_is(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    for param in command.params:
        assert isinstance(param, click.Argument) or getattr(param, "help", ""), param.name


def test_version(capsys: Captured) -> None:
    assert run(["--version"]) == Exit.DONE
    assert capsys.readouterr().out == f"rowfall {rowfall.__version__}\n"


def test_options_reach_the_library_with_their_types(api: Api) -> None:
    api.answers["load"] = DONE
    line = (
        "load a.csv b.csv --to d --table t --threads 4 --set a=1 --set b=2 --max-errors 3 "
        "--max-error-ratio 0.5 --s3-anonymous --memory 4GiB --verify"
    )
    assert run(line.split()) == Exit.DONE
    (_, args, kwargs), *_ = api.calls
    assert args == (("a.csv", "b.csv"),)
    assert (kwargs["to"], kwargs["table"]) == ("d", "t")
    assert kwargs["options"] == Options(
        threads=4, set=("a=1", "b=2"), max_errors=3, max_error_ratio=0.5,
        s3_anonymous=True, memory="4GiB", verify=True,
    )  # fmt: skip


def test_options_left_out_are_the_defaults_of_the_table(api: Api) -> None:
    api.answers["load"] = DONE
    run(["load", "generate://trips?rows=1e8"])
    assert api.calls[0][2]["options"] == Options()
    assert {f.name for f in fields(Options)} >= {i.name for i, _ in flags_of("plan")}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("a"), 2),
        (errors.LedgerError("a"), 3),
        (errors.SourceError("a"), 4),
        (errors.DataError("a", uri="x.csv"), 4),
        (errors.TargetError("a"), 5),
        (errors.EngineError("a"), 6),
        (errors.VerifyError("a"), 7),
        (errors.Interrupted("a"), 130),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("a"), 70),
    ],
)
def test_errors_become_exit_codes(
    api: Api, error: BaseException, code: int, capsys: Captured
) -> None:
    api.answers["load"] = error
    assert run(["load", "x.csv"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_an_error_says_its_hint_on_a_line_of_its_own(api: Api, capsys: Captured) -> None:
    api.answers["load"] = errors.SourceError("cannot list x", hint="Is it there?")
    run(["load", "x", "--quiet"])
    assert capsys.readouterr().err == "rowfall: error: cannot list x\n  hint: Is it there?\n"


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_tracebacks_only_for_debugging(
    api: Api, capsys: Captured, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    api.answers["load"] = ZeroDivisionError("oops")
    assert run(["load", "x"]) == Exit.BUG
    err = capsys.readouterr().err
    assert "this is a bug in rowfall: ZeroDivisionError: oops" in err
    assert "Traceback" not in err
    if way == "environment":
        monkeypatch.setenv("ROWFALL_DEBUG", "1")
    assert run(["load", "x", *(["--debug"] if way == "flag" else [])]) == Exit.BUG
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "lod x",
        "load",
        "load x --nonsense",
        "load x --threads many",
        "load x --threads 0",
        "load x --max-error-ratio 2",
        "query x --force",
        "query",
        "",
    ],
)
def test_mistakes_in_the_command_line(api: Api, line: str, capsys: Captured) -> None:
    assert run(line.split()) == Exit.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err
    assert api.calls == []


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("laod x.csv", "Did you mean rowfall load?"),
        ("load x.csv --tabel t", "Did you mean --table?"),
        ("lab dwon", "Did you mean rowfall lab down?"),
        ("help laod", "Did you mean rowfall load?"),
        ("s3://bucket/x.csv", "To load it: rowfall load s3://bucket/x.csv."),
        ("load x.csv --sep ;", "It is --delimiter TEXT."),
        ("load x.csv -t trips", "The table is --table NAME."),
        ("load x.csv --overwrite", "--replace replaces the table."),
        ("ls", "To list tables: rowfall tables; loads: rowfall status."),
        ("load x.csv --null", "Write --null WORD,...."),
    ],
)
def test_the_nearest_name_is_suggested(api: Api, line: str, hint: str, capsys: Captured) -> None:
    assert run(line.split()) == Exit.USAGE
    assert f"  hint: {hint} 'rowfall" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("load x --table a --table=b", "--table is given twice: a and b"),
        ("load x --to clickhouse://u:secret@h/d --to null:", "--to is given twice\n"),
        ("status --to a --to b", "--to is given twice: a and b"),
    ],
)
def test_an_option_of_one_value_is_not_given_twice(
    api: Api, line: str, says: str, capsys: Captured
) -> None:
    assert run(line.split()) == Exit.USAGE
    assert f"error: {says}" in capsys.readouterr().err
    assert api.calls == []


def test_the_same_value_twice_is_one(api: Api) -> None:
    api.answers["load"] = DONE
    assert (
        run(["load", "x", "--table", "a", "--table", "a", "--skip", "b", "--skip", "c"])
        == Exit.DONE
    )
    assert api.calls[0][2]["table"] == "a"


@pytest.mark.parametrize("line", ["-q load x", "load -q x", "load x --quiet", "--json -q load x"])
def test_common_options_may_stand_anywhere(api: Api, line: str, capsys: Captured) -> None:
    api.answers["load"] = DONE
    assert run(line.split()) == Exit.DONE
    assert capsys.readouterr().err == ""


def test_help_is_a_command(capsys: Captured) -> None:
    for words in ([], ["load"], ["lab", "up"]):
        assert run([*words, "--help"]) == Exit.DONE
        by_option = capsys.readouterr().out
        assert run(["help", *words]) == Exit.DONE
        assert capsys.readouterr().out == by_option


def test_errors_are_documents_for_programs(api: Api, capsys: Captured) -> None:
    api.answers["load"] = errors.SourceError("cannot list x", hint="Is it there?")
    for line in ("load x --json", "--json load x"):
        assert run(line.split()) == Exit.SOURCE
        assert json.loads(capsys.readouterr().out) == {
            "rowfall_error": 1, "error": "cannot list x", "hint": "Is it there?", "exit": 4,
        }  # fmt: skip
    assert run(["load", "x", "--tabel", "t", "--json"]) == Exit.USAGE
    assert json.loads(capsys.readouterr().out)["exit"] == 2
    api.answers["query"] = errors.EngineError("no such table")
    assert run(["query", "SELECT 1", "--json"]) == Exit.ENGINE
    captured = capsys.readouterr()  # rows may have gone to stdout
    assert (captured.out, json.loads(captured.err)["exit"]) == ("", 6)


def load_that_talks(*, on_event: events.Listener, **_: Any) -> Report:
    on_event(events.LoadStarted("3f2a", "x.csv", "d", "default.t", 1, 0, 10, None))
    on_event(events.Progressed(5, 10, 1, 1, 0.1))
    on_event(events.Progressed(6, 10, 1, 1, 0.2))
    on_event(events.Note("warning", "careful"))
    on_event(events.LoadEnded("3f2a", "done"))
    return DONE


def test_a_log_file_has_what_is_said(api: Api, capsys: Captured, tmp_path: Path) -> None:
    api.answers["load"] = load_that_talks
    log = tmp_path / "x.log"
    assert run(["load", "x.csv", "-q", "--log-file", str(log)]) == Exit.DONE
    assert capsys.readouterr().err == "warning: careful\n"
    text = log.read_text()
    assert "info    load 3f2a: 1 file of x.csv into default.t\n" in text
    assert "warning careful\n" in text
    assert text.count(" rows, 10 B") == 1  # one line in ten seconds
    assert "load 3f2a9c1e  done" in text
    api.answers["load"] = errors.SourceError("gone", hint="Put it back.")
    run(["load", "x.csv", "--log-file", str(log)])
    assert log.read_text().startswith(text)
    assert log.read_text().endswith("error   hint: Put it back.\n")
    assert log.stat().st_mode & 0o777 == 0o600


def test_json_lines_on_stderr(api: Api, capsys: Captured) -> None:
    api.answers["load"] = load_that_talks
    assert run(["--log-format", "json", "load", "x.csv"]) == Exit.DONE
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.err.splitlines()]
    assert [line["event"] for line in lines] == [
        "load_started", "progressed", "note", "load_ended", "report",
    ]  # fmt: skip
    assert lines[2]["level"] == "warning"
    assert lines[4]["report"]["rowfall_report"] == 2
    api.answers["load"] = errors.SourceError("gone")
    run(["load", "x.csv", "--log-format", "json"])
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["error"], line["exit"]) == ("error", "gone", 4)


def test_a_log_that_cannot_be_written(api: Api, capsys: Captured, tmp_path: Path) -> None:
    assert run(["load", "x", "--log-file", str(tmp_path / "no" / "x.log")]) == Exit.USAGE
    assert "cannot write the log" in capsys.readouterr().err
    assert api.calls == []


PROJECT = """
[connections.prod]
uri = "clickhouse://me@ch1/db"
password = "env:PW"
threads = 3
verify = true
set = ["a=1"]
[loads.orders]
source = "orders.csv"
[loads.lines]
source = "lines.csv"
"""


@pytest.fixture
def project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PW", "geheim")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / "rowfall.toml"
    file.write_text(PROJECT)
    return file


def test_a_connection_names_target_password_and_options(api: Api, project_file: Path) -> None:
    api.answers |= {"load": DONE, "loads": []}
    assert run(["load", "x.csv", "--to", "prod", "--threads", "4"]) == Exit.DONE
    (_, _, kwargs), *_ = api.calls
    assert kwargs["to"] == "clickhouse://me@ch1/db"
    assert kwargs["password"].reveal() == "geheim"
    assert kwargs["options"] == Options(threads=4, verify=True, set=("a=1",))
    assert run(["status", "--to", "prod"]) == Exit.DONE
    assert api.calls[-1][2] == {"to": "clickhouse://me@ch1/db"}


def test_the_environment_says_where_to(
    api: Api, project_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.answers |= {"loads": []}
    for value, given, to in (
        ("prod", [], "clickhouse://me@ch1/db"), ("./data", [], "./data"),
        ("prod", ["--to", "other/x"], "other/x"), ("", [], None),
    ):  # fmt: skip
        monkeypatch.setenv("ROWFALL_TO", value)
        assert run(["status", *given]) == Exit.DONE
        assert api.calls[-1][2] == {"to": to}


@pytest.mark.parametrize("line", ["thread = 3", "threads = [3]", "verify = 1", "threads = 'x'"])
def test_a_connection_with_a_mistake(
    api: Api, project_file: Path, line: str, capsys: Captured
) -> None:
    project_file.write_text(f"[connections.prod]\nuri = 'x/y'\n{line}\n")
    assert run(["load", "x.csv", "--to", "prod"]) == Exit.USAGE
    assert capsys.readouterr().err.startswith("rowfall: error: ")
    assert api.calls == []


@pytest.mark.parametrize(
    ("words", "there"),
    [
        ("rowfall lo", ["load"]),
        ("rowfall load --thr", ["--threads"]),
        ("rowfall load --presort ", ["auto", "on", "off"]),
        ("rowfall load --format Parq", ["Parquet", "ParquetMetadata"]),
        ("rowfall run o", ["orders"]),
        ("rowfall run ", ["orders", "lines"]),
        ("rowfall config ", ["orders", "lines", "prod"]),
        ("rowfall load x --to p", ["prod"]),
        ("rowfall load --table ", ["t"]),
        ("rowfall report ", ["last", "3f2a9c1e", "77aa"]),
        ("rowfall help cl", ["clean"]),
    ],
)
def test_completion(
    api: Api, project_file: Path, words: str, there: list[str], capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    api.answers["loads"] = [DONE, PARTIAL]
    monkeypatch.setenv("_ROWFALL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.split() == [f"plain,{word}" for word in there]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed(
    shell: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(["completion", shell]) == Exit.DONE
    printed = capsys.readouterr().out
    assert "_ROWFALL_COMPLETE" in printed
    assert run(["completion", shell, "--install"]) == Exit.DONE
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    assert path.read_text() == printed.removesuffix("\n")
    assert str(path) in capsys.readouterr().err


def test_the_end_report_is_talk_and_json_is_data(api: Api, capsys: Captured) -> None:
    def load(*, on_event: events.Listener, **_: Any) -> Report:
        on_event(events.LoadStarted("3f2a", "x.csv", "d", "default.t", 1, 0, 10, None))
        on_event(events.Note("warning", "careful"))
        on_event(events.LoadEnded("3f2a", "partial"))
        return PARTIAL

    api.answers["load"] = load
    assert run(["load", "x.csv"]) == Exit.PARTIAL
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "load 77aa  partial" in captured.err
    assert run(["load", "x.csv", "--json"]) == Exit.PARTIAL
    captured = capsys.readouterr()
    assert json.loads(captured.out)["failures"][0]["hint"] == "Put it back."
    assert "load 77aa" not in captured.err
    assert run(["load", "x.csv", "-q"]) == Exit.PARTIAL
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: careful\n")


def test_status_and_report_are_data(api: Api, capsys: Captured) -> None:
    api.answers |= {"loads": [DONE, PARTIAL], "report": DONE, "status": DONE}
    assert run(["status", "--to", "d"]) == Exit.DONE
    assert "3f2a9c1e  done" in capsys.readouterr().out
    assert run(["status", "--json"]) == Exit.DONE
    assert len(json.loads(capsys.readouterr().out)["loads"]) == 2
    for line in (["report", "last"], ["status", "3f2a"]):
        assert run(line) == Exit.DONE
        assert "load 3f2a9c1e  done" in capsys.readouterr().out
        assert run([*line, "--json"]) == Exit.DONE
        assert json.loads(capsys.readouterr().out)["rowfall_report"] == 2
    assert api.calls[0] == ("loads", (), {"to": "d"})


@pytest.mark.parametrize(("ok", "code"), [(True, Exit.DONE), (False, Exit.VERIFY)])
def test_verify(api: Api, ok: bool, code: Exit, capsys: Captured) -> None:
    found = Verification("3f2a", ok, 2, 2, "a", "a" if ok else "b", "all rows", 0.1)
    api.answers["verify"] = found
    assert run(["verify", "last"]) == code
    assert ("equal" if ok else "different") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "format_name"),
    [([], "TSVWithNames"), (["--json"], "JSON"), (["--format", "Vertical"], "Vertical")],
)
def test_query_into_a_pipe(api: Api, extra: list[str], format_name: str) -> None:
    assert run(["query", "SELECT 1", *extra]) == Exit.DONE
    name, args, kwargs = api.calls[0]
    assert (name, args) == ("query", ("SELECT 1",))
    assert (kwargs["format"], kwargs["pretty"], kwargs["write"]) == (format_name, False, False)


def test_query_on_a_terminal_is_a_table(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["query", "SELECT 1", "--write"]) == Exit.DONE
    kwargs = api.calls[0][2]
    assert (kwargs["format"], kwargs["pretty"]) == ("PrettyCompactMonoBlock", True)
    assert kwargs["write"]


def rowfall_process(
    *arguments: str, python: tuple[str, ...] = (), **kwargs: Any
) -> subprocess.CompletedProcess[str]:
    """The command as its own process."""
    return subprocess.run(
        [sys.executable, *python, "-m", "rowfall", *arguments],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **kwargs,
    )


@pytest.mark.parametrize("arguments", [("--help",), ("load", "--help"), ("--version",)])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = rowfall_process(*arguments, python=("-X", "importtime"))
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.split("\n")}
    assert "click" in imported
    heavy = {"rich", "obstore", "botocore", "chdb", "sqlite3", "asyncio", "rowfall.api"}
    assert not imported & heavy


def test_a_closed_stdout_ends_quietly() -> None:
    script = (
        "import sys, types\n"
        "api = types.ModuleType('rowfall.api')\n"
        "from rowfall.core.results import Report\n"
        "api.loads = lambda to=None: [Report('a', 'done', 's', 't', 'x' * 99, 'now')] * 500\n"
        "import rowfall\n"
        "sys.modules['rowfall.api'] = rowfall.api = api\n"
        "from rowfall.cli import main\n"
        "main(['status'])\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTING = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from rowfall.cli import main
main(["status"])
"""


@pytest.mark.parametrize(
    "module",
    ["rowfall.systems.clickhouse.prestart", "subprocess", "rowfall.cli.app", "click",
     "rowfall.cli.status", "rowfall.api"],
)  # fmt: skip
def test_ctrl_c_during_an_import_ends_quietly(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTING, module], env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == Exit.INTERRUPTED, done.stderr
    assert done.stdout == ""
    assert done.stderr in ("", "rowfall: interrupted\n")


@pytest.mark.parametrize("closed", ["2>&-", ">&- <&-"])
def test_a_stream_closed_from_the_start_is_no_bug(closed: str, tmp_path: Path) -> None:
    line = f"{sys.executable} -m rowfall status --to {tmp_path}/none {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=os.environ | {"PYTHONPATH": str(SRC)}, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_reference_pages_are_current(name: str) -> None:
    """Run ``python docs/make_reference.py`` when this fails."""
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name]()


def test_keyword_options_are_those_of_the_table() -> None:
    """Run ``python docs/make_reference.py`` when this fails."""
    assert MADE["KEYWORDS"].read_text(encoding="utf-8") == MADE["keywords"]()


@pytest.mark.parametrize("name", ["load", "plan", "scale"])
def test_an_editor_sees_every_option(name: str) -> None:
    """The signature, which a notebook completes, and the types, which an editor does."""
    from rowfall.core import keywords

    options = [item.name for item, _ in flags_of(name)]
    shown = inspect.signature(getattr(rowfall, name)).parameters
    assert [each for each in shown if each in options] == options
    typed = getattr(keywords, f"{name.title()}Keywords")
    assert typed.__optional_keys__ == set(options)


def test_every_public_name_is_there() -> None:
    for name in rowfall.__all__:
        assert getattr(rowfall, name) is not None


def test_names_are_completed_before_they_are_imported() -> None:
    code = "import sys, rowfall; print(*dir(rowfall)); assert 'rowfall.api' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = done.stdout.split()
    assert {"load", "query", "Report", "SourceError", "__version__"} <= set(names)


def test_errors_say_how_the_command_would_end() -> None:
    error = rowfall.SourceError("gone", hint="Put it back.")
    assert (error.exit_code, error.hint, str(error)) == (4, "Put it back.", "gone")
    assert error.__notes__ == ["hint: Put it back."]
