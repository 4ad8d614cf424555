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

    from rowfall.api import (
        adopt,
        clean,
        forget,
        install_decoder,
        leftovers,
        load,
        load_tables,
        loads,
        plan,
        plan_tables,
        query,
        read,
        report,
        resume,
        scale,
        status,
        verify,
        worker,
    )
    from rowfall.core.errors import (
        DataError,
        EngineError,
        Interrupted,
        LedgerError,
        RowfallError,
        SourceError,
        TargetError,
        UsageError,
        VerifyError,
    )
    from rowfall.core.model import Plan
    from rowfall.core.options import Options
    from rowfall.core.results import Adopted, LoadError, Report, Verification
    from rowfall.core.tables import TablesPlan, TablesReport
    from rowfall.report.query_result import QueryResult
    from rowfall.run.read import RowReader

__all__ = [
    "Adopted",
    "DataError",
    "EngineError",
    "Interrupted",
    "LedgerError",
    "LoadError",
    "Options",
    "Plan",
    "QueryResult",
    "Report",
    "RowReader",
    "RowfallError",
    "SourceError",
    "TablesPlan",
    "TablesReport",
    "TargetError",
    "UsageError",
    "Verification",
    "VerifyError",
    "__version__",
    "adopt",
    "clean",
    "forget",
    "install_decoder",
    "leftovers",
    "load",
    "load_tables",
    "loads",
    "plan",
    "plan_tables",
    "query",
    "read",
    "report",
    "resume",
    "scale",
    "status",
    "verify",
    "worker",
]

_ELSEWHERE = {
    "Adopted": "core.results",
    "LoadError": "core.results",
    "Options": "core.options",
    "Plan": "core.model",
    "QueryResult": "report.query_result",
    "Report": "core.results",
    "RowReader": "run.read",
    "TablesPlan": "core.tables",
    "TablesReport": "core.tables",
    "Verification": "core.results",
}
_MODULES = {
    name: _ELSEWHERE.get(name, "api" if name.islower() else "core.errors")
    for name in __all__
    if name != "__version__"
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'rowfall' has no attribute {name!r}")
    value = getattr(import_module(f"rowfall.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not: what notebooks and shells complete."""
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps ``rowfall.plan`` and ``rowfall.report`` the functions of the library.

    The import system binds a package's name in its parent once it is imported, and two rooms are
    called like functions.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
