"""The table of what rowfall-decode can do is what the program says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from rowfall.core.type_names import parse_type
from rowfall.decoder import abilities

MAKE = Path(__file__).parents[2] / "docs/make_abilities.py"


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_abilities", MAKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_what_the_program_says() -> None:
    made = maker()
    assert made.text(made.told()) == made.FILE.read_text(encoding="utf-8"), "make_abilities.py"


@pytest.mark.parametrize(
    ("own", "wanted", "converts"),
    [
        ("Int32", "Decimal(9, 2)", True), ("Int32", "DateTime", False), ("Int128", "Int64", False),
        ("UInt32", "DateTime", False), ("Decimal(38, 2)", "Int8", True), ("Bool", "Float64", False),
        ("Decimal(39, 2)", "Int8", False), ("FixedString(3)", "FixedString(4)", False),
        ("String", "FixedString(4)", True), ("String", "Int8", False), ("Float64", "Bool", False),
        ("DateTime64(3)", "DateTime64(6)", True), ("Date32", "Date", True),
    ],
)  # fmt: skip
def test_which_values_are_converted(own: str, wanted: str, converts: bool) -> None:
    assert abilities.converts(parse_type(own), parse_type(wanted)) is converts
