"""The action for GitHub: its steps, run as a runner runs them."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "integrations/github-action/action.yml"
ACTION_FILE: dict[str, Any] = yaml.safe_load(ACTION.read_text())
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION_FILE["runs"]["steps"]}
SECRET = "a-secret-of-the-warehouse"


class Runner:
    """A runner with its files; ``run`` runs one step of the action with inputs of a workflow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output, self.summary = folder / "output", folder / "summary"
        (folder / "temp/rowfall/bin").mkdir(parents=True)

    def run(
        self, step: str, inputs: Mapping[str, str], env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        defaults = {name: one.get("default", "") for name, one in ACTION_FILE["inputs"].items()}
        assert inputs.keys() <= defaults.keys()
        values = defaults | dict(inputs)

        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda m: values[m[1]], text)

        for path in (self.output, self.summary):
            path.write_text("")
        script = self.folder / "step.sh"
        script.write_text(STEPS[step]["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],  # noqa: S607
            cwd=self.folder, check=False, capture_output=True, text=True,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.folder), "ROWFALL_HOME": str(self.folder / "home"),
                "RUNNER_TEMP": str(self.folder / "temp"),
                "GITHUB_ACTION_PATH": str(ACTION.parent),
                "GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary),
                "WAREHOUSE_PASSWORD": SECRET,
                **{name: filled(text) for name, text in STEPS[step]["env"].items()}, **(env or {}),
            },
        )  # fmt: skip

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.output.read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner whose step ``install`` has left the rowfall of this checkout."""
    made = Runner(tmp_path)
    (tmp_path / "temp/rowfall/bin/rowfall").symlink_to(Path(sys.executable).with_name("rowfall"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/2026-01-31.csv").write_text("id,total\n1,2.5\n2,3\n")
    (tmp_path / "rowfall.toml").write_text(
        '[loads.events]\nparams = ["day"]\nsource = "in/{day}.csv"\ntable = "events"\n'
    )
    return made


def test_no_input_and_no_secret_is_part_of_a_script() -> None:
    for step in STEPS.values():
        assert "${{" not in step["run"]
        assert set(step) == {"id", "shell", "run", "env"}
    used = "".join(text for step in STEPS.values() for text in step["env"].values())
    for name in ACTION_FILE["inputs"]:
        assert f"${{{{ inputs.{name} }}}}" in used
    assert not [name for name in ACTION_FILE["inputs"] if "password" in name or "secret" in name]
    for name, output in ACTION_FILE["outputs"].items():
        assert output["value"] == f"${{{{ steps.load.outputs.{name} }}}}"


def test_a_load_gives_its_figures_to_later_steps(runner: Runner) -> None:
    inputs = {"load": "events", "arguments": "--param=day=2026-01-31\n"}
    for rows in ("2", "0"):
        done = runner.run("load", inputs)
        assert done.returncode == 0, done.stderr
        outputs = runner.outputs()
        assert (outputs["rows"], outputs["exit-code"]) == (rows, "0")
        assert re.fullmatch("[0-9a-f]{10}", outputs["load-id"])
    assert "| table | default.events |" in runner.summary.read_text()


def test_the_figures_of_many_tables_are_those_of_all(runner: Runner) -> None:
    with sqlite3.connect(runner.folder / "shop.db") as base:
        base.executescript("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1), (2);"
                           "CREATE TABLE b (x INTEGER); INSERT INTO b VALUES (3);")  # fmt: skip
    done = runner.run("load", {"source": "shop.db", "arguments": "--tables=*"})
    assert done.returncode == 0, done.stderr
    assert runner.outputs() == {"rows": "3", "exit-code": "0", "load-id": ""}
    assert "| table | a, b |" in runner.summary.read_text()
    # One table of two cannot be loaded: the summary says which, and why.
    with sqlite3.connect(runner.folder / "shop.db") as base:
        base.execute("INSERT INTO a VALUES ('many')")  # no number, and SQLite takes it
    (runner.folder / "rowfall.toml").write_text(
        '[loads.shop]\nsource = "shop.db"\ntables = "*"\nto = "./other"\n'
    )
    done = runner.run("load", {"load": "shop"})
    assert done.returncode != 0
    assert "\na: " in runner.summary.read_text()


def test_inputs_are_arguments_and_nothing_else(runner: Runner) -> None:
    """Shell, commands of the runner, and Markdown in inputs and in what rowfall says of them."""
    evil = "in/$(touch pwned)`touch pwned`;touch pwned\n::set-env name=A::b | <b>x</b>.csv"
    done = runner.run("load", {"source": evil, "table": "x'; touch pwned #"})
    assert done.returncode in (2, 4)
    assert not (runner.folder / "pwned").exists()
    assert runner.outputs() == {"rows": "0", "exit-code": str(done.returncode), "load-id": ""}
    assert "<b>" not in runner.summary.read_text()
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    first, last = commands
    token = first.removeprefix("::stop-commands::")
    assert len(token) == 32
    assert last == f"::{token}::"


def test_the_exit_code_is_that_of_rowfall(runner: Runner) -> None:
    done = runner.run("load", {"load": "events", "arguments": "--param=day=2026-02-01"})
    assert done.returncode == 4
    assert runner.outputs()["exit-code"] == "4"
    assert "2026-02-01.csv" in runner.summary.read_text()
    done = runner.run("load", {"load": "events"})
    assert done.returncode == 2
    assert "--param day=VALUE" in runner.summary.read_text()


@pytest.mark.parametrize(
    ("step", "inputs", "says"),
    [
        ("load", {}, "give load, or source"),
        ("load", {"load": "events", "source": "a.csv"}, "give load, or source"),
        ("load", {"load": "events", "table": "t"}, "names its table itself"),
        ("install", {"version": "0.1.0 --index-url=http://evil"}, "is no version"),
        ("install", {"version": "0.1.0", "extras": "a] @ http://evil"}, "are no extras"),
    ],
)
def test_inputs_that_mean_nothing(
    runner: Runner, step: str, inputs: dict[str, str], says: str
) -> None:
    done = runner.run(step, inputs)
    assert done.returncode == 2
    assert done.stdout.startswith("::error::")
    assert says in done.stdout


def test_secrets_come_by_the_environment_and_are_said_nowhere(runner: Runner) -> None:
    (runner.folder / "rowfall.toml").write_text(
        '[connections.warehouse]\nuri = "clickhouse://loader@127.0.0.1:1/default"\n'
        'password = "env:WAREHOUSE_PASSWORD"\n'
        '[loads.events]\nsource = "in/*.csv"\nto = "warehouse"\ntable = "events"\n'
    )
    done = runner.run("load", {"load": "events"})
    assert done.returncode == 5
    said = done.stdout + done.stderr + runner.summary.read_text() + runner.output.read_text()
    assert "127.0.0.1" in said
    assert SECRET not in said


@pytest.mark.long
def test_the_version_is_installed_and_loads(tmp_path: Path) -> None:
    """From a folder of wheels that stands in for the index; what rowfall needs comes from that."""
    runner = Runner(tmp_path)
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    decoder_wheel(wheels)
    (tmp_path / "a.csv").write_text("id\n1\n")
    done = runner.run("install", {"version": "0.1.0"}, {"PIP_FIND_LINKS": str(wheels)})
    assert done.returncode == 0, done.stderr
    done = runner.run("load", {"source": "a.csv", "to": "null:"})
    assert done.returncode in (0, 2), done.stderr  # without the extra embedded nothing can run it
    done = runner.run("load", {"source": "a.csv", "to": "clickhouse://x@127.0.0.1:1/default"})
    assert done.returncode == 5, done.stderr


def decoder_wheel(folder: Path) -> None:
    """Make a wheel of the decoder that this environment has."""
    package = distribution("rowfall-decode")
    tag = re.findall(r"^Tag: (.*)$", package.read_text("WHEEL") or "", re.M)[0]
    name, record = f"rowfall_decode-{package.version}", ""
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as wheel:
        for file in package.files or ():
            inside = str(file)
            if file.name == "rowfall-decode":
                inside = f"{name}.data/scripts/rowfall-decode"
            elif file.name not in ("METADATA", "WHEEL"):
                continue
            path = Path(str(file.locate()))
            raw = path.read_bytes()
            entry = zipfile.ZipInfo(inside)
            entry.external_attr = path.stat().st_mode << 16  # a program may be run
            wheel.writestr(entry, raw)
            digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
            record += f"{inside},sha256={digest},{len(raw)}\n"
        wheel.writestr(f"{name}.dist-info/RECORD", f"{record}{name}.dist-info/RECORD,,\n")
