"""Shows what each way of delivering rows to servers would cost, for a plan and for ``doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowfall.core import units
from rowfall.core.model import NOT_SPARED, DeliveryForecast
from rowfall.report.layout import grid

if TYPE_CHECKING:
    from rich.console import RenderableType


def deliveries_grid(deliveries: Sequence[DeliveryForecast]) -> list[RenderableType]:
    """Return a grid with a line for each delivery that can be had; [] where there is none."""
    head = ("", "time", "CPU here", "server CPU", "from source", "to servers")
    lines: list[tuple[str, ...]] = [head]
    for one in deliveries:
        if one.refused and one.refused != NOT_SPARED:
            continue
        source = one.source_here + one.source_servers
        name = f"{one.delivery} (--spare-servers)" if one.refused else one.delivery
        lines.append((
            name, units.forecast(one.seconds), f"{one.cpu_here:.2g} s",
            f"{one.cpu_servers:.2g} s", units.size(source),
            "" if one.sent is None else units.size(one.sent),
        ))  # fmt: skip
    return [grid(lines)] if len(lines) > 1 else []
