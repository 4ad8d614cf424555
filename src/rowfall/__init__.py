"""rowfall loads data into analytical databases as fast as the hardware allows, exactly once.

The public names live in :mod:`rowfall.api`; they are imported on first use, so that
``rowfall --help`` and the engine's child process start without them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from rowfall.core.version import __version__

TYPE_CHECKING = False  # typing takes 5 ms, and the engine's process needs nothing of it
if TYPE_CHECKING:
    from typing import Any

    from rowfall.api import load, loads, plan, query, report, verify
    from rowfall.core.errors import RowfallError
    from rowfall.core.model import Plan
    from rowfall.core.options import Options
    from rowfall.core.results import Report, Verification

_MODULES = {
    "load": "api",
    "loads": "api",
    "plan": "api",
    "query": "api",
    "report": "api",
    "verify": "api",
    "Verification": "core.results",
    "Options": "core.options",
    "Plan": "core.model",
    "Report": "core.results",
    "RowfallError": "core.errors",
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
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'rowfall' has no attribute {name!r}")
    value = getattr(import_module(f"rowfall.{module}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps ``rowfall.plan`` and ``rowfall.report`` the functions of the library.

    The import system binds a package's name in its parent once it is imported, and two rooms are
    called like functions.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
