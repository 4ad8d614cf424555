"""rowfall loads data into analytical databases as fast as the hardware allows, exactly once.

The public names live in :mod:`rowfall.api`; they are imported on first use, so that
``rowfall --help`` and the engine's child process start without them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes 5 ms, and the engine's process needs nothing of it
if TYPE_CHECKING:
    from typing import Any

    from rowfall.api import load, loads, plan, query, report, verify
    from rowfall.errors import RowfallError
    from rowfall.model import Plan
    from rowfall.options import Options
    from rowfall.results import Report, Verification

__version__ = "0.1.0"

_HOMES = {
    "load": "api",
    "loads": "api",
    "plan": "api",
    "query": "api",
    "report": "api",
    "verify": "api",
    "Verification": "results",
    "Options": "options",
    "Plan": "model",
    "Report": "results",
    "RowfallError": "errors",
}

__all__ = [
    "Options",
    "Plan",
    "Report",
    "RowfallError",
    "Verification",
    "__version__",
    "load",
    "loads",
    "plan",
    "query",
    "report",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rowfall' has no attribute {name!r}")
    # `rowfall.plan` is also a module of this package: the function wins once it is asked for.
    from importlib import import_module

    value = getattr(import_module(f"rowfall.{home}"), name)
    globals()[name] = value
    return value
