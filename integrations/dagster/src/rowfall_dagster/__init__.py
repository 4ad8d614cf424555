"""The loads of a ``rowfall.toml`` as assets of Dagster: one asset for each load.

:func:`rowfall_assets` makes the assets, :class:`Rowfall` is the resource that runs them, in a
process of its own.
"""

from rowfall_dagster.assets import rowfall_assets
from rowfall_dagster.resource import Rowfall

__all__ = ["Rowfall", "rowfall_assets"]
