"""Names of data sets after the specification of OpenLineage (https://openlineage.io/docs/spec/naming).

A data set is known by them in the lineage of every other tool that reads or writes it, so they hold
neither users nor options, and a port also where it is the default one. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from posixpath import commonpath, dirname
from urllib.parse import SplitResult, unquote, urlsplit

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Listing
from rowfall.core.model import Plan, PlannedTarget
from rowfall.core.patterns import regex

# More objects than this are told as the folder that they are in: an event is a document that people
# look at and services keep, and one of 100 data sets has 68 kB.
MOST_OBJECTS = 100
_PORTS = {
    "clickhouse": 8123, "clickhouses": 8443, "postgresql": 5432, "mysql": 3306, "mariadb": 3306,
    "singlestore": 3306, "kafka": 9092, "hdfs": 8020,
}  # fmt: skip
# What the specification calls them where that differs.
_SCHEMES = {
    "clickhouses": "clickhouse", "postgresql": "postgres", "postgres": "postgres",
    "mariadb": "mysql",
}  # fmt: skip
_LAKES = ("iceberg", "delta")
_USER = regex(r"(://)[^/?#]*@")
# Rows that no other tool knows: made here, in memory, from a pipe.
_NOWHERE = ("generate", "arrow", "stdin", "null")


@dataclass(frozen=True, slots=True)
class DatasetName:
    """The name of a data set: unique within its namespace."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """An input of a load.

    Attributes:
        version: what changes with its content: an ETag, size and time, or a digest of those of all
            objects; "" where nobody knows.
        bytes: as stored, None where not known. ``objects``: that it stands for.
    """

    at: DatasetName
    version: str
    bytes: int | None
    objects: int = 1


def inputs_of(plan: Plan) -> list[Dataset]:
    """Return what a load reads: up to :data:`MOST_OBJECTS` objects, or the folder of more."""
    listing = plan.listing
    if plan.source == "-":  # what a pipe held may lie in a file meanwhile
        return []
    first = listing.uri(0) if len(listing) else ""
    kind = plan.source.partition("+")[0].lower()
    if kind in _LAKES or taken_apart(plan.source).scheme in _LAKES:
        # The table, and not its data files, is what others name.
        found = located(plan.source.partition("+")[2] or plan.source)
        return [_together(listing, found)] if found else []
    if listing.continued or taken_apart(first).scheme in _PORTS:
        address = plan.source if first.startswith("kafka:") else first
        found = located(address)
        return [_together(listing, found)] if found else []
    if len(listing) > MOST_OBJECTS:
        found = located(_folder(listing))
        return [_together(listing, found)] if found else []
    return list(_objects(listing))


def output_of(to: PlannedTarget) -> DatasetName | None:
    """Return where the rows of a plan go; None for nowhere."""
    scheme, address = _scheme(to.text), to.text.partition("+")[2] if "+" in to.text else to.text
    if to.text.startswith("null:"):
        return None
    if scheme in ("", "file") and to.table:  # a data folder of embedded ClickHouse
        return DatasetName("file", f"{os.path.abspath(to.text)}/{to.database}.{to.table}")
    if scheme == "duckdb":
        path = os.path.abspath(unquote(to.text.partition("://")[2].partition("?")[0]))
        return DatasetName("file", f"{path}/{to.database}.{to.table}")
    if scheme in _PORTS and scheme not in ("kafka", "hdfs"):
        return _in_database(to.text, to.database, to.table)
    if "{" in address:  # files to write: their folder
        address = dirname(address.partition("{")[0] + "x") or "/"
    return located(address)


def located(address: str) -> DatasetName | None:
    """Return the name of an object, folder, topic or table by its address; None for no place."""
    scheme = _scheme(address)
    if scheme in _NOWHERE:
        return None
    if scheme in ("", "file"):
        path = unquote(taken_apart(address).path) if scheme else address
        return DatasetName("file", os.path.abspath(path))
    parts = taken_apart(address)
    host, path = parts.netloc.rpartition("@")[2], unquote(parts.path)
    if scheme in ("s3", "gs"):
        return DatasetName(f"{scheme}://{host}", path.strip("/") or "/")
    if scheme == "az":
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get(
            "AZURE_STORAGE_ACCOUNT"
        )
        where = f"wasbs://{host}@{account}" if account else f"az://{host}"
        return DatasetName(where, path.strip("/") or "/")
    if scheme in _PORTS and scheme not in ("kafka", "hdfs"):
        return _in_database(address)
    if scheme in _PORTS:
        # Of several brokers the first one.
        where = f"{scheme}://{_with_port(scheme, host.partition(',')[0])}"
        return DatasetName(where, path.strip("/") if scheme == "kafka" else path)
    return DatasetName(f"{scheme}://{host}", path or "/")


def _in_database(address: str, database: str = "", table: str = "") -> DatasetName:
    """Return the name of a table: ``database.table``, of PostgreSQL ``database.schema.table``.

    Args:
        database: of it, of PostgreSQL its schema; "" for what the address says.
    """
    scheme, parts = _scheme(address), taken_apart(address)
    where = _with_port(scheme, parts.netloc.rpartition("@")[2].partition(",")[0])
    kind = _SCHEMES.get(scheme, scheme)
    names = [unquote(name) for name in parts.path.split("/") if name]
    if table:
        names = [*names[:1], database, table] if kind == "postgres" else [database, table]
    elif kind == "postgres" and len(names) == 2 and "." not in names[1]:
        names.insert(1, "public")
    return DatasetName(f"{kind}://{where}", ".".join(filter(None, names)))


def _with_port(scheme: str, host: str) -> str:
    bare = host.rpartition("]")[2] if "[" in host else host
    return host if ":" in bare else f"{host or 'localhost'}:{_PORTS[scheme]}"


def taken_apart(address: str) -> SplitResult:
    """Return the parts of an address without its user: a hidden one looks like an IPv6 address."""
    return urlsplit(_USER.sub(r"\1", address))


def _scheme(address: str) -> str:
    return address.partition("://")[0].rpartition("+")[2].lower() if "://" in address else ""


def _objects(listing: Listing) -> Iterator[Dataset]:
    """Give each object once: ranges of one are not data sets."""
    seen: set[str] = set()
    for index in range(len(listing)):
        uri = listing.uri(index)
        if uri in seen or (at := located(uri)) is None:
            continue
        seen.add(uri)
        part = listing.part(index)
        size = part.size if part is not None else listing.size(index)
        yield Dataset(at, listing.split(index, "").version, size)


def _together(listing: Listing, at: DatasetName) -> Dataset:
    """Return one data set of all objects, with a digest of their versions."""
    digest = blake2b(digest_size=16)
    for split in listing.splits(""):
        digest.update(f"{split.name}\0{split.version}\0".encode("utf-8", "surrogateescape"))
    return Dataset(at, digest.hexdigest(), listing.total_size, len(listing))


def _folder(listing: Listing) -> str:
    """Return the address of the nearest folder that all objects are in."""
    uris = (listing.uri(index) for index in range(len(listing)))
    head, mark, _ = listing.uri(0).partition("://")
    paths = (uri.partition("://")[2] if mark else uri for uri in uris)
    common = _common(paths)
    return f"{head}://{common}" if mark else common


def _common(paths: Iterable[str]) -> str:
    """Return the common folder, by the thousand: a million names are not kept twice."""
    rest = iter(paths)
    common = ""
    while piece := list(islice(rest, 1_000)):
        folders = [dirname(path) for path in piece]
        common = commonpath([*folders, *([common] if common else [])])
    return common
