"""Values of a project file, with every layer applied and every reference resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret
from rowfall.core.options import Options

FLAG, ENVIRONMENT, PROJECT, USER, DEFAULT = "flag", "environment", "project", "user", "default"
"""Layers that a value comes from, those that win first."""

# A hook swaps a table, refreshes a view or sends a message; a client without a timeout of its own
# would hold the loads that wait for it for ever.
HOOK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a value comes from.

    Attributes:
        layer: one of those above.
        text: ``--threads``, ``ROWFALL_THREADS``, or file, line and table; "" for defaults.
    """

    layer: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """Statements for the target, or one command, beside a load.

    Attributes:
        sql: run one after the other; () for a command.
        command: a program and its arguments, run without a shell; () for SQL.
        timeout: seconds after which it is stopped and has failed.
        where: file, line and table, for messages.
    """

    sql: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    timeout: float = HOOK_SECONDS
    where: str = ""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Hooks of one load: before it, after it has loaded everything, and after it has failed.

    They run at least once: after a crash, and when a load is run again, they run again.
    """

    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    on_error: tuple[Hook, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.on_error)


@dataclass(frozen=True, slots=True)
class NamedConnection:
    """A connection of a file: a target, or a place that sources are in.

    Attributes:
        uri: without secrets; a folder as an absolute path.
        password: None where none is named.
        values: options by their names in Python, and ``table``.
        legacy: it is still below ``[profiles]``.
    """

    name: str
    uri: str
    password: Secret | None
    values: Mapping[str, Any]
    path: Path
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class NamedLoad:
    """A load or pipeline of a file, ready for :func:`rowfall.load`.

    Attributes:
        path: of the file; relative sources, and the default target, are seen from its folder.
        sources: those of connections in full. Passwords of their servers are known to
            :mod:`rowfall.core.passwords`; secrets elsewhere in an address are in it.
        to, table: None for the default.
        password: of the target; None where none is named.
        needs: names of the loads that have to be done before.
        origins: by key of the file (``source``, ``to``, ``threads``), of all that are not defaults.
    """

    name: str
    path: Path
    sources: tuple[str, ...]
    to: str | None
    table: str | None
    password: Secret | None
    options: Options
    needs: tuple[str, ...] = ()
    hooks: Hooks = field(default_factory=Hooks)
    origins: Mapping[str, Origin] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Return the folder that the load has to run in."""
        return self.path.parent
