"""The messages of the page about messages are those that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\*\*`(.+)`\*\*$", PAGE, re.MULTILINE)
# Adjacent literals are one text; a value of an f-string is any.
CODE = "\n".join(
    re.sub(r"\"\s*\n\s*f?\"", "", path.read_text()) for path in (ROOT / "src").rglob("*.py")
)


def test_the_page_has_messages() -> None:
    assert len(MESSAGES) > 15


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_code(message: str) -> None:
    for piece in message.split("…"):
        assert piece.strip() in CODE
