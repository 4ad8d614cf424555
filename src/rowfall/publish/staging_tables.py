"""The staging tables of one load: a twin of every table that an attempt fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowfall.core.model import Pair
from rowfall.core.sqltext import SqlText
from rowfall.targets import staging
from rowfall.targets.staging import TableFacts
from rowfall.targets.views import Views


@dataclass(frozen=True, slots=True)
class Twins:
    """How attempts are staged for one target table and the views that read from it.

    Attributes:
        facts: of the target table.
        views: the materialized views that an INSERT into it would fire.
        shadow: name of the table that gathers all attempts until the end of the load
            (``--atomic``, ``--replace``), "" when each attempt becomes visible by itself.
        straight: no staging (``--direct``).
    """

    facts: TableFacts
    views: Views
    shadow: str = ""
    straight: bool = False

    @property
    def direct(self) -> bool:
        """Whether rows go straight into the table, because its engine has no parts to attach."""
        return self.straight or self.facts.publish_kind == "direct"

    def read(self, rows: Mapping[str, int], prefix: str) -> int | None:
        """Rows that the engine says it has read when an attempt is complete.

        Each view reads again what comes into its source, so 100 rows into a table with two views
        count as 300.

        Args:
            rows: in each staging table.

        Returns:
            None where a table that views read from keeps no rows to count.
        """
        total = rows[prefix]
        twins = self.views.staging_names(prefix)
        for view in self.views.views:
            source = prefix if view.source < 0 else twins[view.source]
            if source not in rows:
                return None
            total += rows[source]
        return total

    @property
    def settings(self) -> dict[str, int]:
        """What every INSERT of an attempt needs for its rows to be counted."""
        found = dict(self.views.settings)
        if self.facts.collapses or self.views.collapses:
            # The family unites rows of equal keys already in the block that is written.
            found["optimize_on_insert"] = 0
        return found

    def fixed(self, prefix: str) -> tuple[str, ...]:
        """Staging tables of an attempt that a merge would change: it unites or expires rows."""
        tables = {(t.database, t.table): t for t in (self.facts, *self.views.tables)}
        own = Twins(self.facts, self.views, straight=self.straight).pairs(prefix)
        return tuple(
            pair.staging
            for pair in own
            if (facts := tables[pair.database, pair.table]).collapses or "TTL" in facts.create_query
        )

    @property
    def databases(self) -> tuple[str, ...]:
        """Where twins are."""
        return tuple(dict.fromkeys((self.facts.database, *(t.database for t in self.views.tables))))

    def stage(self, prefix: str) -> tuple[SqlText, ...]:
        """Statements that make the empty twins of one attempt; the first is called ``prefix``."""
        if self.direct:
            return ()
        return (
            *staging.clone(self.facts, prefix),
            *self.views.create(prefix, prefix),
        )

    def pairs(self, prefix: str) -> tuple[Pair, ...]:
        """Where the parts of an attempt go: the target's own pair first, then those of views."""
        behind = self.views.pairs(prefix)
        home = self.facts.table
        if self.shadow:
            home = self.shadow
            shadows = self.views.pairs(self.shadow)
            behind = tuple(
                Pair(b.database, s.staging, b.staging) for b, s in zip(behind, shadows, strict=True)
            )
        return (*self._own(home, prefix), *behind)

    @property
    def keeps(self) -> bool:
        """Whether the target's own rows can be counted in staging: not those of a Null table."""
        return not self.straight and self.facts.publish_kind == "attach"

    def gathered(self) -> tuple[Pair, ...]:
        """Where the parts of the shadow tables go at the end of an atomic load."""
        return (*self._own(self.facts.table, self.shadow), *self.views.pairs(self.shadow))

    def _own(self, home: str, twin: str) -> tuple[Pair, ...]:
        if not self.keeps:
            return ()  # only the views of a Null table get rows that stay
        return (Pair(self.facts.database, home, twin),)
