"""Names and strings in statements of MySQL, MariaDB and SingleStore. Pure."""

from __future__ import annotations

TSV_LINES = r"FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
"""The lines that the engine writes, as LOAD DATA calls them."""


def name(identifier: str) -> str:
    """Return a backquoted identifier."""
    return "`" + identifier.replace("`", "``") + "`"


def quote(value: str) -> str:
    """Return a string literal (without NO_BACKSLASH_ESCAPES)."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    for plain, letter in (("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        escaped = escaped.replace(plain, letter)
    return f"'{escaped}'"
