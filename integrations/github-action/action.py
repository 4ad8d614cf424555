"""The steps of action.yml, ``install`` and ``load``: run by the Python of a runner alone."""

from __future__ import annotations

import html
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

_VERSION = re.compile(r"[0-9][0-9A-Za-z.+]*")
_EXTRAS = re.compile(r"[a-z0-9]+(,[a-z0-9]+)*")


def given(name: str) -> str:
    """Return an input of the action."""
    return os.environ.get(f"INPUT_{name}", "").strip()


def lines(name: str) -> list[str]:
    """Return an input that has a value on each line."""
    return [line.strip() for line in given(name).splitlines() if line.strip()]


def refuse(what: str) -> int:
    """Say what is wrong with the inputs; return the exit code of usage errors."""
    # A line of its own would begin another command of the runner.
    sys.stdout.write(f"::error::{json.dumps(what)[1:-1]}\n")
    return 2


def folder() -> Path:
    """Return the environment that rowfall is installed into."""
    return Path(os.environ["RUNNER_TEMP"], "rowfall")


def install() -> int:
    """Make an environment with one version of rowfall."""
    version, extras = given("VERSION"), given("EXTRAS").replace(" ", "")
    if not _VERSION.fullmatch(version):
        return refuse(f"version: {version!r} is no version of rowfall, as 0.1.0")
    if extras and not _EXTRAS.fullmatch(extras):
        return refuse(f"extras: {extras!r} are no extras, as embedded,postgresql")
    if sys.version_info < (3, 11):
        return refuse("rowfall needs Python 3.11: put actions/setup-python before this step")
    package = f"rowfall[{extras}]=={version}" if extras else f"rowfall=={version}"
    made = subprocess.run([sys.executable, "-m", "venv", str(folder())], check=False)
    if made.returncode:
        return made.returncode
    pip = [str(folder() / "bin/python"), "-m", "pip", "install", "-q", package]
    return subprocess.run([*pip, "--disable-pip-version-check"], check=False).returncode


def command() -> list[str]:
    """Return the arguments of rowfall; [] where the inputs name no load."""
    if bool(given("LOAD")) == bool(lines("SOURCE")):
        return []
    words = ["run", given("LOAD")] if given("LOAD") else ["load", *lines("SOURCE")]
    for option, name in (("--config", "CONFIG"), ("--to", "TO"), ("--table", "TABLE")):
        if given(name):
            words.append(f"{option}={given(name)}")
    return [*words, "--json", *lines("ARGUMENTS")]


def load() -> int:
    """Run a load; give its figures to later steps and to the summary of the job."""
    words = command()
    if not words:
        return refuse("give load, or source: one of them")
    if given("LOAD") and given("TABLE"):
        return refuse("table: a load of rowfall.toml names its table itself")
    # What rowfall says may hold names of files, and of these none may be a command of the runner.
    token = secrets.token_hex(16)
    sys.stdout.write(f"::stop-commands::{token}\n")
    sys.stdout.flush()
    done = subprocess.run(
        [str(folder() / "bin/rowfall"), *words], cwd=given("WORKING_DIRECTORY") or ".",
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    sys.stdout.write(f"::{token}::\n")
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        document = {"error": "rowfall has said nothing"}
    # Killed by a signal, as for its memory: a step has no negative exit code.
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    report, problem = figures(document)
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as out:
        out.write(f"rows={int(report.get('rows', 0))}\nexit-code={code}\n")
        out.write(f"load-id={re.sub('[^0-9a-f]', '', str(report.get('load_id', '')))}\n")
    with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as out:
        out.write(summary(report, problem, code))
    return code


def figures(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the report of a load, and why it is not done; "" where it is."""
    if "rowfall_run" in document:
        (one,) = document["loads"]
        report = one["report"] or {}
        problem = one["error"] or ""
        problem += f"\n{one['hint']}" if one["hint"] else ""
    else:
        report = document if {"rowfall_report", "rowfall_tables"} & document.keys() else {}
        problem = "\n".join(filter(None, (document.get("error"), document.get("hint"))))
    for failure in report.get("failures", ()):
        problem += f"\n{failure['split']}: {failure['error']}"
    for table in report.get("tables") or ():  # of one load these are the patterns of --tables
        if isinstance(table, dict) and table["problem"]:
            problem += f"\n{table['source']}: {table['problem']['error']}"
    return report, problem.strip()


def summary(report: dict[str, Any], problem: str, code: int) -> str:
    """Return a load as Markdown; its texts as nothing but text."""

    def cell(value: object) -> str:
        text = html.escape(" ".join(str(value).split()))
        return re.sub(r"([\\`*_{}\[\]()#+!|~:@-])", r"\\\1", text)

    tables = report.get("tables", ()) if "rowfall_tables" in report else ()
    names = ", ".join(table["table"] for table in tables)
    rows = [
        ("outcome", report.get("outcome", "failed") if code else "done"),
        ("rows", report.get("rows", 0)),
        ("files", report.get("splits_loaded", 0)),
        ("loaded before", report.get("splits_skipped", 0)),
        ("bytes", report.get("bytes_source", 0)),
        ("seconds", report.get("seconds", 0)),
        ("source", report.get("source", "")),
        ("table", report.get("table", names)),
        ("load", report.get("load_id", "")),
    ]
    text = "### rowfall\n\n| | |\n|---|---|\n"
    text += "".join(f"| {name} | {cell(value)} |\n" for name, value in rows)
    if problem:
        text += f"\n<pre>{html.escape(problem)}</pre>\n"
    return text + "\n"


if __name__ == "__main__":
    sys.exit({"install": install, "load": load}[sys.argv[1]]())
