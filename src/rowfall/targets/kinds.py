"""Kinds of targets: which a text names, what opens it, and texts meant as another kind."""

from __future__ import annotations

import os
import re
import shlex
from typing import cast

from rowfall.core import file_databases, uri
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.registry import find
from rowfall.targets.base import Target

REGISTRY = {
    "folder": "systems.clickhouse.target:open_folder",
    "clickhouse": "systems.clickhouse.target:open_server",
    "clickhouses": "systems.clickhouse.target:open_server",
    "postgresql": "systems.postgresql.target:PostgresTarget",
    "mysql": "systems.mysql.target:MySQLTable",
    "mariadb": "systems.mysql.target:MariaDBTable",
    "singlestore": "systems.mysql.target:SingleStoreTable",
    "duckdb": "systems.duckdb.target:DuckDBTable",
    "kafka": "systems.kafka.target:KafkaTopic",
    "iceberg": "systems.lakes.target:IcebergTarget",
    "file": "export:open_export",
    "s3": "export:open_export",
    "null": "null:open_null",
}
"""Kind -> module in this package and function; it takes (text, table, options, password)."""

DEFAULT_FOLDER = "rowfall-data"

# Ends of names that make a path an export pattern and not a data folder.
_FILE = regex(
    r"\.(csv|tsv|tab|json|ndjson|jsonl|parquet|pq|orc|arrow|feather|avro|native)"
    r"(\.(gz|zst|lz4|xz|bz2))?\Z",
    re.I,
)
# Ends of files that nobody gives to a folder, and that are not written here.
_OTHER_FILE = regex(
    r"\.(xlsx?|ods|txt|dat|log|sql|html?|xml|ya?ml|toml|pdf|md|gz|zst|lz4|xz|bz2|zip|tar|tgz|7z|"
    r"h5|hdf5|pkl)\Z",
    re.I,
)
# In front of the first slash: a name that only machines have. A folder of that name is "./NAME".
_MACHINE = regex(
    r"(?:[^/@]+@)?"
    r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]|"
    r"(?:[a-z0-9-]+\.)+(?:com|net|org|io|dev|cloud|local|internal|lan|localdomain))"
    r"(?::\d*)?",
    re.I,
)
_NOWHERE = ("null", "/dev/null")
_STDOUT = ("-", "/dev/stdout", "stdout")


def open_target(
    to: str | None, table: str, options: Options, password: Secret | None = None
) -> Target:
    """Return the target that ``to`` names.

    Args:
        to: a data folder, a file pattern or a URI; None for the default folder.
        table: may be ``database.table``.
        password: for a server, instead of the one in the URI or the environment.

    Raises:
        UsageError: a scheme that is not known, a folder that was meant as a server or a file, or a
            pattern that cannot hold ``--files``.
    """
    if to == "":
        raise UsageError("--to is empty", hint="Leave it out to load into ./rowfall-data.")
    text = to or DEFAULT_FOLDER
    kind = "folder" if to is None else kind_of(text, options)
    factory = find(REGISTRY[kind], "targets")
    return cast("Target", factory(text, table, options, password))


def kind_of(text: str, options: Options) -> str:
    """Return the kind of target that ``text`` names, one of :data:`REGISTRY`.

    Raises:
        UsageError: none, or it looks like another kind than the one it would be.
    """
    if text == "null:":
        return "null"
    scheme = uri.scheme_of(text)
    if scheme == "stdin" or (scheme == "null" and text != "null:"):
        scheme = "file"
    if scheme == "file":
        return _kind_of_path(text, options)
    if scheme == "sqlite":
        raise _only_read(text)
    if scheme not in REGISTRY or scheme in ("folder", "null"):
        guess = did_you_mean(scheme, [k for k in REGISTRY if k not in ("folder", "null", "file")])
        raise UsageError(
            f"{scheme}:// is not a target",
            hint=f"{guess}Targets are a folder (embedded ClickHouse), "
            "clickhouse://host:8123/database, postgresql://host/database, mysql://host/database, "
            "mariadb://host/database, singlestore://host/database, kafka://host:9092/topic, "
            "iceberg+s3://bucket/path/table, file.duckdb, null:, or files to write: a path or "
            "s3:// URL that ends in a format such as part_{n}.csv.gz.",
        )
    return scheme


def check_file(text: str, options: Options) -> None:
    """Check that ``text`` names files to write, in a format that is known.

    Raises:
        UsageError: it does not.
    """
    scheme = uri.scheme_of(text)
    if scheme == "s3" or (scheme == "file" and (_FILE.search(text) or options.to_format)):
        return
    raise UsageError(
        f"{uri.mask(text)} is not a file to write",
        hint="Files to write end in a format, as out.csv or out.parquet; of others --to-format "
        "names it.",
    )


def _kind_of_path(text: str, options: Options) -> str:
    """Return ``file``, ``folder`` or a scheme; a folder that exists is one, whatever its name."""
    path = text.removeprefix("file://")
    if text in _STDOUT:
        raise UsageError(
            "rows cannot be loaded into stdout",
            hint="Write them to a file, as --to out.csv; rowfall query prints rows.",
        )
    if text in _NOWHERE:
        raise UsageError(f"--to {text} is not a target", hint="To only read, write --to null:.")
    if os.path.isdir(path):
        return "file" if _FILE.search(path) else "folder"
    if text == path and uri.is_almost_address(path) and not os.path.isdir(os.path.dirname(path)):
        raise _would_be_folder(path)
    if _FILE.search(path):
        return "file"
    database = file_databases.scheme_of_file(path)
    if database or (not os.path.exists(path) and (database := file_databases.scheme_of_new(path))):
        if database == "sqlite":
            raise _only_read(text)
        return database
    if options.to_format and not path.endswith("/"):
        return "file"
    first = path.partition("/")[0]
    if text == path and (_MACHINE.fullmatch(first) or ":" in first):
        raise _would_be_folder(path)
    if os.path.exists(path):
        raise UsageError(
            f"--to {text} is a file, and rows are kept in a folder",
            hint="Name a folder. Files to write end in a format, as out.csv or out.parquet.",
        )
    if _OTHER_FILE.search(path):
        raise UsageError(
            f"--to {text} is not a kind of file that rowfall writes, and would be a folder",
            hint="Files to write end in .csv, .tsv, .json, .parquet, .orc, .arrow, .avro or "
            f".native, also packed as in .csv.gz; of others --to-format names the format. "
            f"A folder of that name: --to {shlex.quote(f'{text}/')}",
        )
    return "folder"


def _would_be_folder(path: str) -> UsageError:
    """Return the error for an address without its scheme, or with half of one."""
    shown = uri.mask_almost(path)
    return UsageError(
        f"--to {shown} looks like a server and would be a folder",
        hint=f"{_as_server(path)}A folder of that name: --to {shlex.quote(f'./{shown}')}",
    )


def _only_read(text: str) -> UsageError:
    """Return the error for a target that is a file of SQLite."""
    name = os.path.splitext(text.rstrip("/").rpartition("/")[2])[0] or "out"
    return UsageError(
        f"--to {text}: rowfall reads SQLite, and does not write it",
        hint=f"Write a file of DuckDB: --to {shlex.quote(f'{name}.duckdb')}",
    )


def _as_server(text: str) -> str:
    """Return the sentence with the URI that was probably meant; "" if that is unclear."""
    address, _, database = text.partition("/")
    machine = address.rpartition("@")[2]
    name, colon, port = machine.rpartition(":")
    if not _MACHINE.fullmatch(address) and (not port.isdigit() or not name):
        return ""
    whole = address if colon and port else f"{address.rstrip(':')}:8123"
    for native, http in ((":9000", ":8123"), (":9440", ":8443")):  # rowfall speaks HTTP
        whole = whole.removesuffix(native) + http if whole.endswith(native) else whole
    url = f"clickhouse://{whole}/{database or 'default'}"
    return f"A server: --to {shlex.quote(uri.mask(url))}. "
