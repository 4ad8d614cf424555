"""The staging tables of one load: one for every table that an attempt fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask, StagingPair
from rowfall.core.sqltext import SqlText
from rowfall.plan import table_definition
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.staging import TableFacts
from rowfall.systems.clickhouse.views import Views, fed_name


@dataclass(frozen=True, slots=True)
class StagingTables:
    """Staging tables of one target table and of the views that read from it.

    Attributes:
        facts: of the target table.
        views: the materialized views that an INSERT into it would fire.
        shadow: name of the table that gathers all attempts until the end of the load
            (``--atomic``, ``--replace``), "" when each attempt becomes visible by itself.
        straight: rows go into the table without staging (``--direct``).
        fed: no INSERT brings rows into staging, so views read from a table that keeps nothing,
            into which staged rows are inserted once more; see :func:`views.fed_name`.
    """

    facts: TableFacts
    views: Views
    shadow: str = ""
    straight: bool = False
    fed: bool = False

    @property
    def direct(self) -> bool:
        """Tell whether rows go straight into the table, wished or for want of parts to attach."""
        return self.straight or self.facts.publish_kind == "direct"

    @property
    def definitions(self) -> tuple[str, ...]:
        """Return the definitions of the target and of the tables behind its views."""
        return tuple(table.create_query for table in (self.facts, *self.views.tables))

    def now(self, ask: Ask) -> StagingTables:
        """Return them as their tables are defined now: somebody may have altered these.

        Raises:
            TargetError: the shadow is gone.
        """
        tables = (self.facts, *self.views.tables)
        shadow = (self.facts.database, self.shadow)
        names = [(t.database, t.table) for t in tables]
        found = staging.lookup(ask, [*names, shadow] if self.shadow else names)
        if self.shadow and shadow not in found:
            raise TargetError(
                f"the rows that this load had gathered in {'.'.join(shadow)} are gone: another "
                "rowfall has loaded some of these files meanwhile, or somebody has dropped it",
                hint="Run the same command again: it loads what is missing.",
            )
        own, *behind = (found.get(name, t) for name, t in zip(names, tables, strict=True))
        if names[0] not in found:
            own = replace(own, id=replace(own.id, uuid=""))  # it is gone
        return replace(self, facts=own, views=replace(self.views, tables=tuple(behind)))

    def read(self, rows: Mapping[str, int], prefix: str) -> int | None:
        """Return the rows that the engine says it has read when an attempt is complete.

        Each view reads again what comes into its source, so 100 rows into a table with two views
        count as 300.

        Args:
            rows: in each staging table.

        Returns:
            None where a table that views read from keeps no rows to count.
        """
        total = rows[prefix]
        names = self.views.staging_names(prefix)
        for view in self.views.views:
            source = prefix if view.source < 0 else names[view.source]
            if source not in rows:
                return None
            total += rows[source]
        return total

    def projected(self, rows: Mapping[str, int], prefix: str) -> int:
        """Return the rows that servers count as read once more, for the tables' projections.

        24.10 does: 100 rows into a table with two projections are 300. Newer versions do not.

        Args:
            rows: in each staging table.
        """
        staged = self._staged(prefix)
        return sum(rows.get(name, 0) * facts.projections for name, facts in staged)

    @property
    def settings(self) -> dict[str, int]:
        """Settings that every INSERT of an attempt needs, so that its rows can be counted."""
        found = dict(self.views.settings)
        if self.facts.collapses or self.views.collapses:
            # The family unites rows of equal keys already in the block that is written.
            found["optimize_on_insert"] = 0
        return found

    def fixed(self, prefix: str) -> tuple[str, ...]:
        """Return the staging tables of an attempt in which a merge would unite or expire rows."""
        return tuple(
            name for name, facts in self._staged(prefix)
            if facts.collapses or "TTL" in facts.create_query
        )  # fmt: skip

    @property
    def databases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.facts.database, *(t.database for t in self.views.tables))))

    def stage(self, prefix: str) -> tuple[SqlText, ...]:
        """Return the statements that make one attempt's staging tables; the first is ``prefix``."""
        if self.direct:
            return ()
        return (
            *staging.clone(self.facts, prefix),
            *((self._fed(prefix),) if self.fed else ()),
            *self.views.create(prefix, prefix, fed=self.fed),
        )

    def _fed(self, prefix: str) -> SqlText:
        """Return the statement that makes the table from which views are fed.

        Raises:
            TargetError: somebody has altered the table since the plan was made.
        """
        definition = table_definition.parse(self.facts.create_query)
        if definition is None:
            raise TargetError(
                f"the definition of {self.facts.qualified} has changed and is not understood",
                hint="Run the same command again: it makes another plan.",
            )
        name = sql.qualified(self.facts.database, fed_name(prefix))
        columns = table_definition.without_expressions(definition)
        return SqlText.of(f"CREATE TABLE {name} ({columns}) ENGINE = Null")

    def pairs(self, prefix: str) -> tuple[StagingPair, ...]:
        """Return where the parts of an attempt go: the target's own pair first, then of views."""
        behind = self.views.pairs(prefix)
        table = self.facts.table
        if self.shadow:
            table = self.shadow
            shadows = self.views.pairs(self.shadow)
            behind = tuple(
                StagingPair(b.database, s.staging, b.staging)
                for b, s in zip(behind, shadows, strict=True)
            )
        return (*self._own(table, prefix), *behind)

    @property
    def keeps(self) -> bool:
        """Tell whether the target's own rows can be counted: a Null table keeps none."""
        return not self.straight and self.facts.publish_kind == "attach"

    def gathered(self) -> tuple[StagingPair, ...]:
        """Return where the parts of the shadow tables go at the end of an atomic load."""
        return (*self._own(self.facts.table, self.shadow), *self.views.pairs(self.shadow))

    def _staged(self, prefix: str) -> list[tuple[str, TableFacts]]:
        """Return the staging tables of an attempt, and the tables that these are made like."""
        tables = {(t.database, t.table): t for t in (self.facts, *self.views.tables)}
        pairs = (*self._own(self.facts.table, prefix), *self.views.pairs(prefix))
        return [(pair.staging, tables[pair.database, pair.table]) for pair in pairs]

    def _own(self, table: str, staged: str) -> tuple[StagingPair, ...]:
        if not self.keeps:
            return ()  # only the views of a Null table get rows that stay
        return (StagingPair(self.facts.database, table, staged),)
