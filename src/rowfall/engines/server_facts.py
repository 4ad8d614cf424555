"""What a server is asked at the start: whether it can be used, and what a load may use of it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rowfall.core.errors import RowfallError, TargetError, UsageError
from rowfall.core.model import Facts
from rowfall.core.sqltext import quote
from rowfall.engines._connect import Address
from rowfall.engines._evidence import Evidence

# The release from which everything used here behaves as tested.
OLDEST = (24, 8)
# Only where nothing can be read: ClickHouse's own advice is 4 GB and more for 4 cores.
MEMORY_PER_CORE = 1 << 30

# Bytes the server may still take: its limit less what it holds now, and what the machine has.
_MEMORY_LEFT = """\
SELECT toInt64OrZero(value) - (SELECT value FROM system.metrics WHERE metric = 'MemoryTracking')
FROM system.server_settings WHERE name = 'max_server_memory_usage' AND toInt64OrZero(value) > 0
UNION ALL
SELECT intDiv(toInt64(value), {sharing}) FROM system.asynchronous_metrics
WHERE metric = 'OSMemoryAvailable'"""


def usable_memory(limits: Iterable[int], cores: int) -> int:
    """Bytes a load may use of a server with these limits, of which 0 and less are none."""
    # Half, as for the embedded engine: the rest is for its other users and caches.
    free = min((limit for limit in limits if limit > 0), default=0) // 2
    return free or cores * MEMORY_PER_CORE


def read_facts(
    evidence: Evidence, address: Address, memory: int | None, threads: int | None, sharing: int
) -> tuple[Facts, int]:
    """As the planner wants them, and the user's ``readonly`` setting.

    Args:
        evidence: asks the server at ``address``.
        memory: bytes a load may use there; default half of what the server has left.
        threads: override of the cores it may use.
        sharing: servers that load at the same time on its machine, itself among them.

    Raises:
        TargetError: it is too old.
        Lost: it cannot be reached.
    """
    row = evidence.ask(
        "SELECT version(), getSetting('max_threads'), getSetting('readonly'), "
        "getSetting('max_memory_usage'), getSetting('max_memory_usage_for_user'), timezone()"
    )[0]
    version, cores = str(row[0]), threads or max(1, int(row[1]) // sharing)
    if tuple(int(n) for n in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise TargetError(
            f"the server at {address} is ClickHouse {version}, which is too old",
            hint="rowfall needs ClickHouse {}.{} or newer.".format(*OLDEST),
        )
    limits = [int(limit) for limit in row[3:5]]
    left = _MEMORY_LEFT.format(sharing=sharing)
    with contextlib.suppress(RowfallError):  # an ordinary user may not read all of it
        limits += [int(limit) for (limit,) in evidence.ask(left)]
    changeable = frozenset(
        name for (name,) in evidence.ask("SELECT name FROM system.settings WHERE NOT readonly")
    )
    usable = memory or usable_memory(limits, cores)
    return Facts(version, cores, usable, changeable, str(row[5])), int(row[2])


def check_options(evidence: Evidence, address: Address, options: Mapping[str, str]) -> None:
    """Whether the server takes the settings that are to be sent with every statement.

    Raises:
        UsageError: it does not know one of them, or refuses it.
        Lost: it cannot be reached.
    """
    names = ", ".join(quote(name) for name in options)
    known = (
        {name for (name,) in evidence.ask(
            f"SELECT name FROM system.settings WHERE name IN ({names})"
        )} if options else set()
    )  # fmt: skip
    for name in options:
        if name not in known:
            raise UsageError(
                f"the server at {address} does not know the setting {name!r}",
                hint="What follows the ? of the target are settings of the server.",
            )
    try:
        values: dict[str, Any] = dict(options)
        evidence.ask("SELECT 1", **values)
    except RowfallError as error:
        given = "&".join(f"{name}={value}" for name, value in options.items())
        raise UsageError(
            f"the server at {address} does not take ?{given}: {error.message}",
            hint="What follows the ? of the target are settings of the server.",
        ) from None
