"""Targets of rows: exported files, nothing, and what the targets of all systems share.

A target gives text and facts and runs no statement; engines do, and publish makes rows visible.
Imports core.
"""

from __future__ import annotations

from rowfall.targets.kinds import DEFAULT_FOLDER, REGISTRY, open_target
from rowfall.targets.table_names import default_table

__all__ = ["DEFAULT_FOLDER", "REGISTRY", "default_table", "open_target"]
