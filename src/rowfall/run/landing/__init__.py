"""From staged to visible: what an attempt has written is checked, and becomes part of the target.

Tables are staged in twins and attached; files are written under another name and renamed, or by
a store that shows only whole objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowfall.run.landing.base import Landing, Means
from rowfall.run.landing.files import Files
from rowfall.run.landing.spread import Spread
from rowfall.run.landing.tables import Tables

if TYPE_CHECKING:
    from rowfall.run.executor import Executor


def landing(executor: Executor, means: Means) -> Landing:
    """The one that fits the target."""
    if means.together:
        return Spread(executor, means)
    if means.twins is not None:
        return Tables(executor, means, means.twins)
    return Files(executor, means)
