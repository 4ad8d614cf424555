"""The page of what real files showed names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_test_of_the_page_exists() -> None:
    text = (ROOT / "docs/reference/first-contact.md").read_text(encoding="utf-8")
    count = 0
    for row in re.findall(r"^\| .*$", text, re.M):
        named = ""
        for name in re.findall(r"`([\w./]+)`", row.rpartition(" | ")[2]):
            if name.endswith(".py"):
                path = ROOT / "tests" / (name if "/" in name else f"e2e/{name}")
                named = path.read_text(encoding="utf-8")
            else:
                assert f"def test_{name}(" in named, (row, name)
                count += 1
    assert count > 40
