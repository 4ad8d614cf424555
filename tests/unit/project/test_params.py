"""Parameters of loads: which values are taken, and where they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.project import Origin, find_project, params

FILE = """\
[loads.events]
params = ["day", "part"]
source = ["in/day={day}/{a,b}-{part}.csv", "more/{day}.csv"]
table = "events"
where = "day = '{day}'"
after = { command = ["echo", "{day} {other}"] }

[loads.others]
source = "others/{day}.csv"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rowfall.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


def test_values_go_into_every_text_of_the_load(folder: Path) -> None:
    flags = {"params": (params.parse(["day=2026-01-31", "part=7"]), Origin("flag", "--param"))}
    load = find_project().load("events", flags)
    assert load.sources == (
        "in/day=2026-01-31/{a,b}-7.csv", "more/2026-01-31.csv"
    )  # fmt: skip
    assert load.options.where == "day = '2026-01-31'"
    assert load.hooks.after[0].command == ("echo", "2026-01-31 {other}")
    others = find_project().load("others", flags)
    assert others.sources == ("others/{day}.csv",)


def test_a_load_without_a_value_does_not_begin(folder: Path) -> None:
    flags = {"params": ({"day": "1"}, Origin("flag", "--param"))}
    with pytest.raises(
        UsageError, match=r"line 2, \[loads.events\]: params has part, and no value"
    ) as e:
        find_project().load("events", flags)
    assert e.value.hint == "Give one: rowfall run events --param part=VALUE"


def test_names_that_no_load_has(folder: Path) -> None:
    project = find_project()
    project.check_params(["events", "others"], {"day": "1", "part": "2"})
    with pytest.raises(UsageError, match="--param dya: events has no parameter") as e:
        project.check_params(["events"], {"day": "1", "part": "2", "dya": "3"})
    assert "Did you mean day?" in str(e.value.hint)
    with pytest.raises(UsageError, match="others has no parameter") as e:
        project.check_params(["others"], {"day": "1"})
    assert 'params = ["day"] below [loads.others]' in str(e.value.hint)


@pytest.mark.parametrize(
    "text",
    ["day", "=1", "1=2", "day=", "day=1'", "day=*", "day=a/b", "day=..", "day=a b", "day={x}",
     "day=%2e", "day=1\n", "day=1\\", "day=-", "day=--help", "day=-rf"],
)  # fmt: skip
def test_values_that_would_mean_something(text: str) -> None:
    with pytest.raises(UsageError):
        params.parse([text])


def test_two_values_of_one_name() -> None:
    with pytest.raises(UsageError, match="given twice"):
        params.parse(["day=1", "day=2"])


@pytest.mark.parametrize("value", ["3", "[]", '"a b"', '["day", ""]'])
def test_a_file_whose_params_are_no_names(folder: Path, value: str) -> None:
    text = FILE.replace('["day", "part"]', value)
    (folder / "rowfall.toml").write_text(text)
    with pytest.raises(UsageError, match="line 2"):
        find_project()
