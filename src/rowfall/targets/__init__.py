"""Targets of rows, one file per kind: a table, exported files, nothing.

A target gives text and facts and runs no statement; engines do, and publish makes rows visible.
Imports core.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import cast

from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.targets.base import Target

REGISTRY = {
    "folder": "table:open_folder",
    "clickhouse": "table:open_server",
    "clickhouses": "table:open_server",
    "file": "export:open_export",
    "s3": "export:open_export",
    "null": "null:open_null",
}
"""Kind -> module in this package and function; it takes (text, table, options, password)."""

DEFAULT_FOLDER = "rowfall-data"
# Ends of names that make a path an export pattern and not a data folder.
_FILE = re.compile(
    r"\.(csv|tsv|tab|json|ndjson|jsonl|parquet|orc|avro|native)(\.(gz|zst|lz4|xz|bz2))?\Z", re.I
)


def open_target(
    to: str | None, table: str, options: Options, password: Secret | None = None
) -> Target:
    """Return the target that ``to`` names.

    Args:
        to: a data folder, a file pattern or a URI; None for the default folder.
        table: may be ``database.table``.
        password: for a server, instead of the one in the URI or the environment.

    Raises:
        UsageError: a scheme that is not known, or a pattern that cannot hold ``--files``.
    """
    text = to or DEFAULT_FOLDER
    module, _, name = REGISTRY[_kind(text)].partition(":")
    factory = getattr(import_module(f"rowfall.targets.{module}"), name)
    return cast("Target", factory(text, table, options, password))


def _kind(text: str) -> str:
    if text == "null:":
        return "null"
    scheme = text.split("://", 1)[0].lower() if "://" in text else "file"
    if scheme == "file":
        return "file" if _FILE.search(text) else "folder"
    if scheme not in REGISTRY or scheme in ("folder", "null"):
        raise UsageError(
            f"{scheme}:// is not a target",
            hint="Targets are a folder (embedded ClickHouse), clickhouse://host:8123/database, "
            "null:, or files to write: a path or s3:// URL that ends in a format such as "
            "part_{n}.csv.gz.",
        )
    return scheme


def default_table(source: str) -> str:
    """Return a table name made from the source's text: ``/data/trips_*.csv.gz`` -> ``trips``."""
    path = source.split("?")[0].rstrip("/")
    name = path.rsplit("/", 1)[-1]
    if "*" in name and not re.search(r"[A-Za-z]", name.split(".")[0].replace("*", "")):
        # The name is all wildcard: the folder says more.
        parts = [p for p in path.split("/")[:-1] if p and not re.search(r"[*?\[{:]", p)]
        name = parts[-1] if parts else name
    stem = re.split(r"[.*?\[{]", name.lstrip("."), maxsplit=1)[0]
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", stem)
    stem = re.sub(r"[_-]*(part|chunk)?[_-]*\d*[_-]*\Z", "", stem) or stem
    stem = stem.strip("_").lower()
    if not stem:
        return "data"
    return f"t_{stem}" if stem[0].isdigit() else stem
