"""Ask for the parts of a target: how large they are, and when inserts suffer from their number."""

from __future__ import annotations

from contextlib import suppress

from rowfall.contracts.destination import Session
from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.load_record import PartSizes
from rowfall.publish.merges import DELAY, REFUSE, parts_limits

# Below this merges have caught up: where the sweep of insert threads and block sizes that loaders
# are compared by stops its clock.
FEW_PARTS = 3_000


def part_sizes(session: Session) -> PartSizes | None:
    """Return the active parts of the target on all writers; None where they may not be seen."""
    sizes: dict[int, int] = {}
    fullest, asked = 0, False
    for writer in session.writers:
        at = sql.table_is(writer.target.database, writer.target.table)
        with suppress(RowfallError):
            rows = writer.engine.ask(
                # Classes of 1, 4, 16... KiB; each row has the fullest partition besides.
                "SELECT bitShiftLeft(toUInt64(1024), 2 * class) AS most, count(), max(n) FROM ("
                "SELECT toUInt8(greatest(0, ceil(log2(greatest(bytes_on_disk, 1) / 1024) / 2))) "
                "AS class, count() OVER (PARTITION BY partition_id) AS n FROM system.parts "
                f"WHERE active AND rows > 0 AND {at}) GROUP BY most ORDER BY most"
            )
            asked = True
            for most, count, fuller in rows:
                sizes[int(most)] = sizes.get(int(most), 0) + int(count)
                fullest = max(fullest, int(fuller))
    if not asked or not sizes:
        return None
    low, high = min(sizes), max(sizes)
    classes = [low << 2 * n for n in range((high // low).bit_length() // 2 + 1)]
    target, delay, throw = session.first_target, 0, 0
    with suppress(RowfallError):  # this user may not see them
        ask, settings = session.engine.ask, (DELAY, REFUSE)
        delay, throw = parts_limits(ask, settings, target.database, target.table) or (0, 0)
    return PartSizes(
        tuple((most, sizes.get(most, 0)) for most in classes), fullest, FEW_PARTS, None, delay,
        throw,
    )  # fmt: skip
