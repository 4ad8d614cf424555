"""Values of ``rowfall config``: every setting with where it comes from."""

from __future__ import annotations

from typing import Any

from rowfall.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShownValue:
    """One setting.

    Attributes:
        layer: ``flag``, ``environment``, ``project``, ``user`` or ``default``.
        origin: variable, or file, line and table; "" for defaults.
    """

    key: str
    value: Any
    layer: str
    origin: str


@dataclass(frozen=True, slots=True)
class ShownProject:
    """Holds what ``rowfall config`` shows.

    Attributes:
        files: that were read, those that win first.
        name, kind: of the one thing that is shown; "" for the settings of every command.
        names: (kind, name, file and line) of all that the files name.
        unknown: variables that begin like ours and that nothing reads, each with its nearest.
        legacy: files that hold what older versions called otherwise.
    """

    files: tuple[str, ...]
    name: str
    kind: str
    values: tuple[ShownValue, ...]
    names: tuple[tuple[str, str, str], ...]
    unknown: tuple[tuple[str, str], ...]
    legacy: tuple[str, ...]
