"""What a user may not do, found out before any row is read.

No server before 24.11 can be asked about a right. But every server checks rights before it looks
for the table: a statement about a table that does not exist tells, and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError
from rowfall.engines.codes import ACCESS_DENIED

Ask = Callable[[str], list[list[Any]]]
"""Runs a small statement and gives its rows."""

# Those that a load reads and that a guarded server shows to nobody by itself.
SYSTEM_TABLES = ("parts", "merge_tree_settings")
LACKS = " lacks the grant "
# What a load needs in the database of its table; CREATE implies CREATE TABLE, and so on.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "SELECT": (),
    "INSERT": (),
    "ALTER DELETE": ("ALTER", "ALTER TABLE"),
    "CREATE TABLE": ("CREATE",),
    "DROP TABLE": ("DROP",),
}

_DENIED = re.compile(r"necessary to have (?:the )?grant (.+?)\.?(?: \([A-Z_]+\)|\. |\Z)")
_MISSING = re.compile(r"\(Missing permissions: (.+?)\)\.? ?(?:\(|\Z)")
_COLUMNS = re.compile(r"(?:\([^)]*\)| for at least one column)? on ", re.IGNORECASE)
# Staging tables have another name in each attempt.
_STAGING = re.compile(r"\.`?_rowfall_\w+`?")
_GRANTED = re.compile(r"GRANT (.+) ON (\S+) TO ")
_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")


def lacking(message: str) -> str:
    """The rights that an error of code 497 asks for, as GRANT takes them; "" if it does not say."""
    found = _MISSING.search(message) or _DENIED.search(message)
    return _STAGING.sub(".*", _COLUMNS.sub(" ON ", found[1])) if found else ""


def refused(rights: str, user: str) -> TargetError:
    """The error for a user who lacks ``rights`` (``SELECT, INSERT ON db.*``)."""
    name = user if _PLAIN.match(user) else sql.name(user)
    return TargetError(
        f"the user {user!r}{LACKS}{rights}",
        hint=f"An administrator can run: GRANT {rights} TO {name}",
        code=ACCESS_DENIED,
    )


def check(ask: Ask, user: str, database: str, table: str) -> None:
    """Whether a load may stage rows beside ``database.table`` and attach them to it.

    Args:
        ask: raises what :func:`refused` makes.

    Raises:
        TargetError: it may not; names all rights that are missing.
    """
    missing: dict[str, list[str]] = {}
    whole = f"{database}.*"
    for rights, on in _missing(ask, database, table):
        known = [*missing.get(on, ()), *missing.get(whole, ())]
        if new := [right for right in rights if right not in known]:
            missing.setdefault(on, []).extend(new)
    if missing:
        everything = ", ".join(f"{', '.join(rights)} ON {on}" for on, rights in missing.items())
        raise refused(everything, user)


def _missing(ask: Ask, database: str, table: str) -> Iterator[tuple[list[str], str]]:
    probes = [f"SELECT 1 FROM system.{table} LIMIT 0" for table in SYSTEM_TABLES]
    if not _settled((row[0] for row in ask("SHOW GRANTS")), database):
        probe = sql.qualified(database, "_rowfall_probe")
        probes += [
            f"CREATE TABLE {probe} (x UInt8) ENGINE = None",
            f"RENAME TABLE {probe} TO {sql.qualified(database, '_rowfall_probe_1')}",
            f"ALTER TABLE {sql.qualified(database, table)} ATTACH PARTITION ALL FROM {probe}",
        ]
    for text in probes:
        try:
            ask(text)
        except RowfallError as error:
            # Anything else is as it should be: there is no such table or engine.
            _, refusal, rights = error.message.partition(LACKS)
            if error.code == ACCESS_DENIED and refusal:
                names, _, on = rights.rpartition(" ON ")
                yield names.split(", "), on


def _settled(grants: Iterable[str], database: str) -> bool:
    """Whether lines of SHOW GRANTS are enough to see that nothing is missing."""
    held: set[str] = set()
    for line in grants:
        if line.startswith("REVOKE"):
            return False
        found = _GRANTED.match(line)
        if found and found[2] in ("*.*", f"{database}.*", f"{sql.name(database)}.*"):
            held.update(found[1].split(", "))
    if "ALL" in held:
        return True
    return all(held & {right, *wider} for right, wider in NEEDED.items())
