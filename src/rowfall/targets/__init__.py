"""Which target a text means: one line per kind, drivers and details imported late."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.targets.base import Target

DEFAULT_FOLDER = "rowfall-data"
# Ends of names that make a path an export pattern and not a data folder.
_FILE = re.compile(
    r"\.(csv|tsv|tab|json|ndjson|jsonl|parquet|orc|avro|native)(\.(gz|zst|lz4|xz|bz2))?\Z", re.I
)


def state_folder() -> Path:
    """Where ledgers are kept for targets that have no folder of their own."""
    home = os.environ.get("ROWFALL_HOME")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "rowfall"


def open_target(
    to: str | None, table: str, options: Options, password: Secret | None = None
) -> Target:
    """The target that ``to`` names; ``table`` may be ``database.table``.

    Args:
        password: for a server, instead of the one in the URI or the environment.

    Raises:
        UsageError: a scheme that is not known, or a pattern that cannot hold ``--files``.
    """
    text = to or DEFAULT_FOLDER
    if text == "null:":
        from rowfall.targets.null import Null

        return Null(state_folder() / "rowfall.ledger")
    if text.startswith("s3://") or _FILE.search(text):
        from rowfall.targets.export import Export

        return Export(text.removeprefix("file://"), state_folder() / "rowfall.ledger", options)
    database, _, name = table.rpartition(".")
    if set(table) & set("{}"):
        raise UsageError(
            f"the engine takes no braces in the name of a table: {table}",
            hint="Give another name with --table.",
        )
    scheme = text.split("://", 1)[0].lower() if "://" in text else ""
    if scheme in ("clickhouse", "clickhouses"):
        from rowfall.targets.table import on_server

        return on_server(text, database, name, state_folder(), password)
    if scheme and scheme != "file":
        raise UsageError(
            f"{scheme}:// is not a target",
            hint="Targets are a folder (embedded ClickHouse), clickhouse://host:8123/database, "
            "null:, or files to write: a path or s3:// URL that ends in a format such as "
            "part_{n}.csv.gz.",
        )
    from rowfall.targets.table import embedded

    folder = Path(text.removeprefix("file://")).absolute()
    return embedded(folder, database or "default", name)


def default_table(source: str) -> str:
    """A table name from the source's text: ``/data/trips_*.csv.gz`` -> ``trips``."""
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
