"""The flow for Kestra of the guide: its form, and its script, as no server of Kestra can be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs/guides/orchestrators.md"
FLOW: dict[str, Any] = next(
    flow
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    if isinstance(flow := yaml.safe_load(text), dict)
)
LOAD, REFUSED = FLOW["tasks"]


def test_the_form_of_the_flow() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]*", FLOW["id"])
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", FLOW["namespace"])
    for task in (LOAD, REFUSED, *REFUSED["then"], *FLOW["triggers"]):
        assert task["type"].startswith("io.kestra.plugin.")
    assert LOAD["taskRunner"] == {"type": "io.kestra.plugin.core.runner.Process"}
    assert LOAD["retry"].keys() == {"type", "interval", "maxInterval", "maxAttempts"}
    assert not [command for command in LOAD["commands"] if "{{" in command]
    assert f"outputs.{LOAD['id']}.vars.code" in REFUSED["condition"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "code", "handed_on"),
    [("1\n2\n", 0, "0"), ("1\n" * 20_000 + "x\n", 1, ""), ("", 0, "4")],
    ids=["done", "bad value", "no file"],
)  # fmt: skip
def test_the_script_fails_for_what_may_be_tried_again(
    tmp_path: Path, rows: str, code: int, handed_on: str
) -> None:
    (tmp_path / "rowfall.toml").write_text(
        '[loads.events]\nparams = ["day"]\nsource = "{day}.csv"\ntable = "events"\n'
        'type = { id = "Int64" }\n'
    )
    if rows:
        (tmp_path / "2026-01-31.csv").write_text(f"id\n{rows}")
    (script,) = LOAD["commands"]
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=tmp_path, check=False, capture_output=True, text=True,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
            "DAY": "2026-01-31", "ROWFALL_CONFIG": str(tmp_path / "rowfall.toml"),
        },
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    found = re.findall(r'^::\{"outputs":\{"code":(\d+)\}\}::$', done.stdout, re.M)
    assert found == ([handed_on] if handed_on else [])
