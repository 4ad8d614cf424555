"""Name a table after its source, as a person would. Pure but for the name of ``.``.

docs/guides/loading-files.md says the rules to users.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote

from rowfall.core.file_databases import SCHEMES, located
from rowfall.core.patterns import regex
from rowfall.core.uri import LAKES, file_path, lake_address, lake_name, parse, scheme_of

_UUID = regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-z])[0-9a-f]{16,}", re.I)
_UUID_BEHIND = regex(r"[-_]([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})\Z", re.I)
_COPY = regex(r"( - )?\b(copy|kopie)\b( \(\d+\))?\Z|\(\d+\)", re.I)
_ENDS = regex(
    r"\.(csv|tsv|tab|psv|tbl|txt|dat|prn|log|json|ndjson|jsonl|geojson|parquet|pq|orc|arrow|feather|"
    r"avro|native|xml|sql|xls[xmb]?|ods|duckdb|sqlite3?|db3?|gz|gzip|zst|zstd|lz4|xz|bz2|snappy|zip|tar|tgz|tbz2?|txz|tzst|br|deflate)"
    r"(\.\d+)?\Z",  # the last: logs that were rotated
    re.I,
)
_YEAR = regex(r"(19|20)\d\d\Z")
# v2.1, 3.5, 22.04; no date such as 2024.01.31, 31.1.2024 or 01.31.
_VERSION = regex(r"(?<![\d.])(v\d+|[1-9]\d{0,2})(\.\d{1,3})+\Z")
_WILD = regex(r"\*+|\?|\[[^\]]*\]|\{[^}]*\}")
# Says which piece of the data a file is.
_PIECE = regex(r"(part|chunk|shard|slice|piece|segment|block|batch|split|page|c(?=\d))?\d*\Z")
# Says nothing about what is in it: the folder does, or its folder.
_NOTHING = frozenset((
    "data", "dataset", "file", "files", "export", "exports", "output", "out", "result",
    "results", "dump", "download", "downloads", "untitled", "input", "raw", "latest",
    "current", "part", "chunk", "shard", "slice", "piece", "segment", "block", "batch",
    "split", "page", "archive", "backup", "tmp", "temp", "new", "csv", "tsv", "json",
    "ndjson", "parquet", "orc", "avro",
))  # fmt: skip
_SYSTEM = frozenset((
    "home", "users", "mnt", "media", "var", "srv", "opt", "usr", "tmp", "volumes", "root",
    "dev",
))  # fmt: skip
_LONGEST = 60
# What they name has a name already, which is not a file's.
_NAMED = frozenset((
    "kafka", "mysql", "mariadb", "singlestore", "postgresql", "postgres", "clickhouse",
    "clickhouses", "folder", *SCHEMES,
))  # fmt: skip


def default_table(sources: Sequence[str]) -> str:
    """Return the name of the table for SOURCE arguments.

    Of several it is what their names have in common, else their folder, else the first one's. A
    table of a database or of a lake and a topic keep the name that they have.
    """
    own = kept_name(sources[0]) if len(sources) == 1 else ""
    if own:
        return own
    names = list(dict.fromkeys(map(_name, sources)))
    common = _common_words(names)
    if len(names) > 1 and not common:
        folders = {"".join(_parts(source)[1][-2:-1]) for source in sources}
        common = _words(folders.pop()) if len(folders) == 1 else []
        common = [] if _is_nothing(common) else common
    return _as_name(common) if common else names[0]


def same_names(sources: Sequence[str]) -> Sequence[str]:
    """Return the first two sources of other folders whose files have one name; () for none."""
    by_name: dict[str, str] = {}
    for source in sources:
        name = _parts(source)[1][-1:]
        plain = bool(name) and not set(name[0]) & set("*?[{") and bool(os.path.splitext(name[0])[1])
        first = by_name.setdefault(name[0], source) if plain else source
        if first != source:
            return first, source
    return ()


def kept_name(source: str) -> str:
    """Return the name of a table of a database or a lake, or of a topic; "" for other sources."""
    if scheme_of(source) in LAKES:
        return _of_lake(source)
    if source.partition("://")[0].lower() not in _NAMED:
        return ""
    at = parse(source)
    if at.scheme in SCHEMES and not (at.query.get("table") or located(source, (*at.query,))[1]):
        return ""  # the only table of a file is named after the file
    name = at.query.get("table") or at.path.strip("/").rpartition("/")[2]
    if at.scheme != "kafka" and "schema" not in at.query:
        name = name.rpartition(".")[2]  # behind its schema
    # What is left would be taken for a database and a table.
    return name.replace(".", "_")


def _of_lake(source: str) -> str:
    """Return the name of a table of a lake: behind its namespace, or that of its folder."""
    address = lake_address(source)
    if address == source:
        return lake_name(parse(source).path.strip("/")).replace(".", "_")
    path = address.rstrip("/")
    if scheme_of(address) == "file":
        path = os.path.abspath(os.path.expanduser(file_path(address)))
    if path.endswith(".json"):  # one state of the table
        path = path.rpartition("/")[0].removesuffix("/metadata")
    name = lake_name(path)
    # Catalogues put a UUID behind the name, so that folders of tables made anew differ.
    return (_UUID_BEHIND.sub("", name) or name).replace(".", "_")


def _name(source: str) -> str:
    """Return the name for one source: the last part of its path that says something."""
    bucket, parts = _parts(source)
    found = [_words(part) for part in reversed(parts)]
    best = next((words for words in found if not _is_nothing(words)), None)
    if best is None:
        # Better "export" than nothing at all, better the bucket than a number.
        named = (words for words in found if any(not word.isdigit() for word in words))
        best = next(named, None) or _words(bucket) or next((w for w in found if w), [])
    return _as_name(best)


def _parts(source: str) -> tuple[str, list[str]]:
    """Return the bucket of a source, "" where there is none, and the parts of its path."""
    scheme, mark, rest = lake_address(source).rpartition("://")
    bucket, path = "", rest
    if scheme in ("s3", "gs", "az"):
        bucket, _, path = rest.partition("/")
    elif scheme in ("http", "https"):
        path = unquote(rest.partition("?")[0].partition("#")[0].partition("/")[2])
    elif mark and scheme != "file":
        path = rest.partition("?")[0]
    elif path.rstrip("/").rpartition("/")[2] in (".", ".."):
        path = os.path.abspath(path)
    # A member of an archive lies in it as in a folder.
    parts = [part for part in path.replace("::", "/").split("/") if part not in ("", ".", "..")]
    if path.startswith("/") and len(parts) > 1 and parts[0].lower() in _SYSTEM:
        # Those of the system say nothing, nor do users.
        parts = parts[2 if parts[0].lower() in ("home", "users") and len(parts) > 2 else 1 :]
    return bucket, [part for part in parts if "=" not in part]  # dt=2024-01-01 is a column


def _words(part: str) -> list[str]:
    """Return the words of one part of a path that name what it holds, in lower case."""
    text = part.lstrip(".")
    if not text.isascii():
        import unicodedata  # a library of its own

        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    wild = _WILD.search(text) is not None
    while (shorter := _ENDS.sub("", text)) != text:
        text = shorter
    text = _COPY.sub(" ", _UUID.sub(" ", _WILD.sub(" ", text)))
    words = [word for word in re.split(r"[^A-Za-z0-9]+", text.lower()) if word]
    numbers = words
    if not wild and _VERSION.search(text.lower()) and text[0].isalpha():
        return words
    dated = False
    while words and (_PIECE.fullmatch(words[-1]) or words[-1] == "of"):
        if not (wild or dated) and _is_year(words):
            break
        dated = dated or words[-1].isdigit()
        words = words[:-1]
    while words and words[0].isdigit():
        words = words[1:]
    if words and not (words[-1].isdigit() and len(words) > 1):
        # A date or a long number; behind a wildcard any number is one of many.
        number = r"\d+\Z" if wild else r"(?<!\d)(?!(19|20)\d\d\Z)\d{4,}\Z"
        last = re.sub(number, "", words[-1])
        words = [*words[:-1], last] if last else words
    return words or [word for word in numbers if not word.isdigit()][:1] or numbers[:1]


def _is_year(words: Sequence[str]) -> bool:
    """Return True where the last word is a year that no other number stands in front of.

    ``sales 2024`` is a name, and another one than ``sales 2023``. Days and months are pieces of
    one table, which is loaded day by day.
    """
    alone = len(words) > 1 and not words[-2].isdigit()
    return alone and _YEAR.fullmatch(words[-1]) is not None


def _is_nothing(words: Sequence[str]) -> bool:
    return all(word in _NOTHING or _PIECE.fullmatch(word) for word in words)


def _common_words(names: Sequence[str]) -> list[str]:
    """Return the words that all names begin with."""
    common = []
    for words in zip(*(name.split("_") for name in names), strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return common


def _as_name(words: Sequence[str]) -> str:
    name = "_".join(words)[:_LONGEST].rstrip("_")
    if not name:
        return "data"
    return f"t_{name}" if name[0].isdigit() else name
