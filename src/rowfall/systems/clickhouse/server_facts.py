"""Questions to a server at the start: can it be used, what may a load use of it, which rights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core import sql, units
from rowfall.core.errors import EngineError, RowfallError, TargetError, UsageError
from rowfall.core.model import Ask, Facts, version_numbers
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, LACKS, denied
from rowfall.systems.clickhouse.profile import SETTINGS, UNCUT, as_texts

if TYPE_CHECKING:  # http.client takes 20 ms that loads into a folder save
    from rowfall.systems.clickhouse.http import Address
    from rowfall.systems.clickhouse.profile import UserProfile
    from rowfall.systems.clickhouse.status import StatementStatus

# The release from which everything used here behaves as tested.
OLDEST = (24, 8)
# Only where nothing can be read: ClickHouse's own advice is 4 GB and more for 4 cores.
MEMORY_PER_CORE = 1 << 30

# What a load may use of a server: its limits by name, each as a list of lists of texts, which is
# how the settings of the profile are given, too. Plain questions in a row: as nested ones they take
# the server twice as long.
_OWN = """\
SELECT 'own', [[version(), toString(getSetting('max_threads')), toString(getSetting('readonly')),
    toString(getSetting('max_memory_usage')), toString(getSetting('max_memory_usage_for_user')),
    timezone(), hostName()]]"""
_MEMORY = """\
SELECT 'limit', [[value]] FROM system.server_settings WHERE name = 'max_server_memory_usage'
UNION ALL
SELECT 'taken', [[toString(value)]] FROM system.metrics WHERE metric = 'MemoryTracking'
UNION ALL
SELECT 'free', [[toString(toInt64(value))]] FROM system.asynchronous_metrics
WHERE metric = 'OSMemoryAvailable'"""
_LIMITS = f"{_OWN}\nUNION ALL\n{_MEMORY}"
# As rows the thousand settings would be as many documents of JSON to take apart, 8 ms.
_PROFILE = SETTINGS.replace(
    "name, readonly, min, max, value",
    "'profile', groupArray([name, toString(readonly), min, max, value])",
)

_MEMORY_LIMIT = """\
SELECT toInt64OrZero(value) FROM system.server_settings WHERE name = 'max_server_memory_usage'"""

# Tables that a load reads and that need a grant on a server with guarded system tables; the last
# one tells what a dead load still runs.
SYSTEM_TABLES = ("parts", "merge_tree_settings", "processes")
# What replicas and Keeper say of a replicated table, whose outages leave questions.
REPLICATED_TABLES = ("replicas",)
# What a load needs in the database of its table; CREATE implies CREATE TABLE, and so on.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "SELECT": (),
    "INSERT": (),
    "ALTER DELETE": ("ALTER", "ALTER TABLE"),
    "CREATE TABLE": ("CREATE",),
    "DROP TABLE": ("DROP",),
}
_GRANTED = regex(r"(GRANT|REVOKE) (.+) ON (\S+) (?:TO|FROM) ")
_SYNC = frozenset({"SYSTEM SYNC FILE CACHE", "SYSTEM", "ALL"})


def usable_memory(limits: Iterable[int], cores: int) -> int:
    """Return the bytes that a load may use of a server; limits of 0 and less are none."""
    # Half, as for the embedded engine: the rest is for its other users and caches.
    free = min((limit for limit in limits if limit > 0), default=0) // 2
    return free or cores * MEMORY_PER_CORE


def read_facts(
    status: StatementStatus, address: Address, profile: UserProfile, memory: int | None,
    threads: int | None, sharing: int,
) -> tuple[Facts, int, str]:  # fmt: skip
    """Return the facts for the planner, the user's ``readonly`` setting, and the server's host.

    Args:
        status: asks the server at ``address``.
        profile: of the user there.
        memory: bytes a load may use there; default half of what the server has left.
        threads: override of the cores it may use.
        sharing: servers that load at the same time on its machine, itself among them.

    Raises:
        TargetError: it is too old, or does not answer.
    """
    found = _ask_limits(status)
    if "own" not in found:
        raise TargetError(
            f"the server at {address} answers a question with nothing: the profile of the user "
            "sets offset or a filter",
            hint="Give a user without it.",
        )
    row = found["own"]
    version, cores = str(row[0]), threads or max(1, int(row[1]) // sharing)
    if version_numbers(version) < OLDEST:
        raise TargetError(
            f"the server at {address} is ClickHouse {version}, which is too old",
            hint="rowfall needs ClickHouse {}.{} or newer.".format(*OLDEST),
        )
    limits = [int(limit) for limit in row[3:5]]
    limits += _memory_left(found, sharing)
    if memory:
        _check_memory(status, address, memory, [int(limit) for limit in row[3:5]])
    usable = memory or usable_memory(limits, cores)
    facts = Facts(
        version, cores, usable, profile.changeable, str(row[5]), profile.constraints
    )  # fmt: skip
    return facts, int(row[2]), str(row[6])


def ask_at_once(status: StatementStatus) -> None:
    """Ask for the profile of a server's user and its limits by one question, for who asks next.

    Where the server refuses it, each is asked for by itself.

    Raises:
        TargetError: it does not answer.
    """
    try:
        rows = status.learn(f"{_LIMITS}\nUNION ALL\n{_PROFILE}", **as_texts(UNCUT))
    except RowfallError as error:
        if _is_silent(error):
            raise
        return
    for name, profile in rows:
        if name == "profile":
            limits = [row for row in rows if row[0] != name]
            status.learnt |= {_LIMITS: limits, SETTINGS: profile}


def _ask_limits(status: StatementStatus) -> dict[str, list[str]]:
    """Return the limits by their names; those of memory where the user may read them."""
    try:
        rows = status.learn(_LIMITS)
    except RowfallError as error:
        if _is_silent(error):
            raise
        rows = status.learn(_OWN)
    return {str(name): limits for name, (limits,) in rows}


def _memory_left(limits: Mapping[str, Sequence[str]], sharing: int) -> list[int]:
    """Return bytes that the server may still take: its limit less what it holds, and what is free.

    Empty where an ordinary user may not read it, or an old release does not know it.
    """
    limit = int(limits["limit"][0]) if "limit" in limits else 0
    own = [limit - int(limits["taken"][0])] if limit > 0 and "taken" in limits else []
    return own + [int(text) // sharing for text in limits.get("free", ())]


def _is_silent(error: RowfallError) -> bool:
    """Tell whether the server did not answer at all.

    Without a code it did not, but where the log that has the code is not to be read.
    """
    return not error.code and not isinstance(error, EngineError)


def _check_memory(
    status: StatementStatus, address: Address, memory: int, limits: Sequence[int]
) -> None:
    """Check that the server allows what ``--memory`` asks for: it would end the load half-way.

    Args:
        limits: of the user; 0 for none.

    Raises:
        UsageError: it does not.
    """
    known = list(limits)
    with contextlib.suppress(RowfallError):  # an ordinary user may not read it
        known += [int(limit) for (limit,) in status.learn(_MEMORY_LIMIT)]
    least = min((limit for limit in known if limit > 0), default=0)
    if least and memory > least:
        raise UsageError(
            f"--memory {units.memory(memory)} is more than the {units.memory(least)} that the "
            f"server at {address} lets a load use",
            hint="Leave it out to use half of what is free there.",
        )


def check_options(status: StatementStatus, address: Address, options: Mapping[str, str]) -> None:
    """Check that the server takes the settings that are to be sent with every statement.

    Raises:
        UsageError: it does not know one of them, or refuses it.
        TargetError: it does not answer.
    """
    if not options:
        return
    names = ", ".join(quote(name) for name in options)
    known = {
        name for (name,) in status.learn(
            f"SELECT name FROM system.settings WHERE name IN ({names})"
        )
    }  # fmt: skip
    for name in options:
        if name not in known:
            raise UsageError(
                f"the server at {address} does not know the setting {name!r}",
                hint="What follows the ? of the target are settings of the server.",
            )
    try:
        values: dict[str, Any] = dict(options)
        status.learn("SELECT 1", **values)
    except RowfallError as error:
        if not error.code:
            raise  # it does not answer, for which no setting is to blame
        given = "&".join(f"{name}={value}" for name, value in options.items())
        raise UsageError(
            f"the server at {address} does not take ?{given}: {error.message}",
            hint="What follows the ? of the target are settings of the server.",
        ) from None


def read_grants(ask: Ask) -> tuple[list[str], bool]:
    """Return the lines of SHOW GRANTS, and True where they tell what the user's roles give, too."""
    try:
        return [str(row[0]) for row in ask("SHOW GRANTS FINAL")], True
    except RowfallError:  # roles cannot be looked into
        return [str(row[0]) for row in ask("SHOW GRANTS")], False


def check_rights(
    ask: Ask, user: str, tables: Sequence[tuple[str, str]], grants: Sequence[str], *,
    replicated: bool = False,
) -> None:  # fmt: skip
    """Check that a load may stage rows beside some tables and attach them, and end dead loads.

    Those rename, drop and attach as well. No server before 24.11 can be asked about a right. But
    every server checks rights before it looks for the table: a statement about a table that does
    not exist tells, and changes nothing.

    Args:
        ask: raises the error of :func:`rowfall.systems.clickhouse.codes.denied`.
        tables: (database, name) of each; ``replicated``: some of them are.
        grants: see :func:`read_grants`.

    Raises:
        TargetError: it may not; names all rights that are missing.
    """
    missing: dict[str, list[str]] = {}
    for rights, on in _missing(ask, tables, grants, replicated=replicated):
        whole = f"{on.rpartition('.')[0]}.*"
        known = [*missing.get(on, ()), *missing.get(whole, ())]
        if new := [right for right in rights if right not in known]:
            missing.setdefault(on, []).extend(new)
    if missing:
        everything = ", ".join(f"{', '.join(rights)} ON {on}" for on, rights in missing.items())
        raise denied(everything, user)


def may_sync(grants: Sequence[str], *, whole: bool) -> bool:
    """Tell whether the user may flush the disks of the server's machine.

    Nothing is flushed to find out: that may take seconds.

    Args:
        grants, whole: see :func:`read_grants`.
    """
    held = not whole  # then the first attempt says it
    for line in grants if whole else ():
        found = _GRANTED.match(line)
        if found and found[3] == "*.*" and not _SYNC.isdisjoint(found[2].split(", ")):
            held = found[1] == "GRANT"
    return held


def _missing(
    ask: Ask, tables: Sequence[tuple[str, str]], grants: Sequence[str], *, replicated: bool
) -> Iterator[tuple[list[str], str]]:
    system = (*SYSTEM_TABLES, *(REPLICATED_TABLES if replicated else ()))
    probes = [f"SELECT 1 FROM system.{name} LIMIT 0" for name in system]
    each = (f"(SELECT count() FROM system.{name} WHERE 0)" for name in system)
    with contextlib.suppress(RowfallError):
        # All at once; which one is refused is asked for only where one is.
        if not _settled(grants, "system", {"SELECT": ()}):
            ask(f"SELECT {', '.join(each)}")
        probes = []
    for database, table in tables:
        probe = sql.qualified(database, "_rowfall_probe")
        if _settled(grants, database):
            continue
        probes += [
            # There is no such column. Some servers ask for a grant on the engine as well.
            f"CREATE TABLE {probe} (x UInt8) ENGINE = MergeTree ORDER BY y",
            # Of several tables a server names what the first one lacks, so each right is asked for.
            f"RENAME TABLE {probe} TO {sql.qualified(database, '_rowfall_probe_1')}",
            f"ALTER TABLE {probe} ATTACH PARTITION tuple()",
            f"ALTER TABLE {probe} DROP PART 'all_0_0_0'",
            f"ALTER TABLE {sql.qualified(database, table)} ATTACH PARTITION ALL FROM {probe}",
        ]
    for text in probes:
        try:
            ask(text)
        except RowfallError as error:
            # Anything else is as it should be: there is no such table or column.
            _, refusal, rights = error.message.partition(LACKS)
            if error.code == ACCESS_DENIED and refusal:
                names, _, on = rights.rpartition(" ON ")
                yield names.split(", "), on


def _settled(
    grants: Iterable[str], database: str, needed: Mapping[str, tuple[str, ...]] = NEEDED
) -> bool:
    """Tell whether lines of SHOW GRANTS are enough to see that nothing is missing."""
    held: set[str] = set()
    for line in grants:
        if line.startswith("REVOKE"):
            return False
        found = _GRANTED.match(line)
        if found and found[3] in ("*.*", f"{database}.*", f"{sql.name(database)}.*"):
            held.update(found[2].split(", "))
    if "ALL" in held:
        return True
    return all(held & {right, *wider} for right, wider in needed.items())
