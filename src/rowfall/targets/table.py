"""A MergeTree table of the embedded engine: staging beside it, published by MOVE PARTITION."""

from __future__ import annotations

from pathlib import Path

from rowfall import sql
from rowfall.model import Encoding, Schema
from rowfall.secrets import Secret
from rowfall.sqltext import SqlText
from rowfall.targets.base import Caps, Publish

STAGING_PREFIX = "_rowfall_"
# Parts in staging must keep their identity between the INSERT and the MOVE: a merge would mix
# rows that a crash has already published with rows that it has not. SYSTEM STOP MERGES is
# forgotten at a restart, table settings are not.
_NO_MERGES = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"
)
LEDGER_NAME = "rowfall.ledger"


class EmbeddedTable:
    """Rows go to ``database.table`` in the data folder ``folder``."""

    def __init__(self, folder: Path, database: str, table: str) -> None:
        self.text = str(folder)
        self.folder: Path | None = folder
        self.database = database
        self.table = table
        self.ledger_path = folder / LEDGER_NAME
        self.secrets: tuple[Secret, ...] = ()
        self.caps = Caps(
            Publish.MOVE,
            "exactly once: rows are staged, counted, then moved in by partition; a re-run "
            "after a crash loads only what has not landed",
        )

    @property
    def qualified(self) -> str:
        return sql.qualified(self.database, self.table)

    def create(self, schema: Schema) -> tuple[SqlText, ...]:
        if schema.exists:
            return ()
        return (
            SqlText.of(f"CREATE DATABASE IF NOT EXISTS {sql.name(self.database)} ENGINE = Atomic"),
            SqlText.of(sql.create_table(self.database, self.table, schema, if_not_exists=True)),
        )

    def stage(self, staging: str, schema: Schema) -> tuple[SqlText, ...]:
        # AS copies columns, keys, codecs and engine from the target, whoever created it.
        return (
            SqlText.of(f"CREATE TABLE {sql.qualified(self.database, staging)} AS {self.qualified}"),
            SqlText.of(
                f"ALTER TABLE {sql.qualified(self.database, staging)} MODIFY SETTING {_NO_MERGES}"
            ),
        )

    def into(self, staging: str, schema: Schema) -> SqlText:
        return SqlText.of(sql.qualified(self.database, staging))

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        return f"{STAGING_PREFIX}{attempt_id}"

    def discard(self, staging: str) -> tuple[SqlText, ...]:
        # SYNC: the space must be free before the attempt is tried again.
        return (SqlText.of(f"DROP TABLE IF EXISTS {sql.qualified(self.database, staging)} SYNC"),)
