"""Files that hold a whole database: known by their first bytes, new ones by the end of the name."""

from __future__ import annotations

import os

from rowfall.core import uri
from rowfall.core.errors import UsageError
from rowfall.core.nearest import did_you_mean

# Where the bytes stand, the bytes, and the scheme that names such a database.
_MAGIC = ((8, b"DUCK", "duckdb"), (0, b"SQLite format 3\0", "sqlite"))
# A new ".db" may be anything.
_ENDS = {".duckdb": "duckdb", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
_HEAD_BYTES = 16
NAMES = {"duckdb": "DuckDB", "sqlite": "SQLite"}
SCHEMES = frozenset(NAMES)
"""Form of the address of all such databases: ``scheme:///path/of/the.file/table``."""


def scheme_of_head(head: bytes) -> str:
    """Return the scheme of the database whose file begins so; "" where it is none."""
    return next((s for at, magic, s in _MAGIC if head[at : at + len(magic)] == magic), "")


def scheme_of_file(path: str) -> str:
    """Return the scheme of the database in a file; "" where there is none, or no file."""
    if not os.path.isfile(path):  # a pipe would wait for its writer
        return ""
    try:
        with open(path, "rb") as file:
            return scheme_of_head(file.read(_HEAD_BYTES))
    except OSError:
        return ""  # whoever reads it says why it cannot be read


def scheme_of_new(path: str) -> str:
    """Return the scheme of the database that a file of this name would be; "" for none."""
    return _ENDS.get(os.path.splitext(path)[1].lower(), "")


def located(text: str, parameters: tuple[str, ...]) -> tuple[str, str, dict[str, str]]:
    """Return the file that a text names, the table behind it, and the parameters of a URI.

    A path of one part, as that of ``duckdb:///shop.duckdb``, is one in this folder: nobody keeps
    databases in the root folder, and other tools read it so.

    Args:
        text: a path, or ``scheme:///path/of/the.file/table?name=value``.

    Raises:
        UsageError: it names a host or no file, or a parameter that is not known.
    """
    scheme = uri.scheme_of(text)
    if scheme == uri.FILE:
        return os.path.realpath(os.path.expanduser(uri.file_path(text))), "", {}
    at = uri.parse(text)
    path, table = f"{at.host}{at.path}".rstrip("/"), ""
    if at.host not in ("", ".", "..", "~") or at.user or not at.path.strip("/"):
        raise UsageError(
            f"{at.text} names no file",
            hint=f"Write {scheme}:///folder/file.{scheme}, or the path alone: folder/file.{scheme}",
        )
    for name in at.query:
        if name not in parameters:
            raise UsageError(
                f"{scheme}:// has no parameter {name!r}",
                hint=f"{did_you_mean(name, parameters)}"
                f"Parameters: {', '.join(parameters) or 'none'}.",
            )
    folder, _, last = path.rpartition("/")
    here = folder[1:] if folder.count("/") == 1 and folder.startswith("/") else folder
    if any(map(os.path.isfile, (os.path.expanduser(folder), here))) or scheme_of_new(folder):
        path, table = folder, last
    if path.count("/") == 1 and path.startswith("/") and not os.path.exists(path):
        path = path[1:]
    return os.path.realpath(os.path.expanduser(path)), table, dict(at.query)
