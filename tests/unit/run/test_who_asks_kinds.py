"""What kind a target is, is asked where its object is chosen, and nowhere else."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import rowfall

SOURCE = Path(rowfall.__file__).parent
CLICKHOUSE = "destinations/clickhouse"


@pytest.mark.parametrize(
    ("question", "places"),
    [
        # One engine or a cluster: who opens it, what stands for its nodes, and the journal's lines.
        (r"session\.shards\b", {f"{CLICKHOUSE}/nodes.py": 1, "publish/recover.py": 2}),
        (r"session\.database\b", {"destinations/database.py": 1}),
        (
            r"target\.server\b",
            {
                f"{CLICKHOUSE}/server.py": 1, f"{CLICKHOUSE}/opening.py": 1,
                f"{CLICKHOUSE}/install.py": 1, "measure/scale.py": 1,
            },
        ),
        (
            r"target\.address\b",
            # transactional: where the small tables beside a target are.
            {"destinations/database.py": 1, "destinations/transactional.py": 2},
        ),
        (r"caps\.publish\b", {"destinations/__init__.py": 1}),
    ],
)  # fmt: skip
def test_the_kind_of_a_target_is_asked_in_few_places(question: str, places: dict[str, int]) -> None:
    found = Counter(
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for _ in re.finditer(question, path.read_text())
    )
    assert found == places, "make it a method of the destination, its record or its nodes"


def test_a_survey_decides_nothing_and_facts_are_made_once() -> None:
    survey = (SOURCE / "plan/survey.py").read_text()
    assert "choose_" not in survey
    assert survey.count("LoadFacts(") == 1
    made = [path for path in SOURCE.rglob("*.py") if re.search(r"\bLoadFacts\(", path.read_text())]
    assert sorted(path.name for path in made) == ["facts.py", "survey.py"]
    for path in SOURCE.rglob("*.py"):
        replaced = re.findall(r"replace\((?:self\.)?_?(session|facts),", path.read_text())
        # The planner works on facts in which large files are the ranges that it has chosen.
        assert not replaced or path.name == "planner.py", path
