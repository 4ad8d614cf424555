"""Find what the registries of the rooms name; a module is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes 4 ms, and the engine's process needs nothing of it
if TYPE_CHECKING:
    from typing import Any


def find(entry: str, room: str) -> Any:
    """Import the module of an entry, and return its class or function.

    Args:
        entry: ``file:Name`` in the room of the registry, ``stores.file:Name`` or
            ``systems.folder.file:Name``.
    """
    module, _, name = entry.partition(":")
    full = f"rowfall.{module}" if "." in module else f"rowfall.{room}.{module}"
    return getattr(import_module(full), name)


class LateMethod:
    """A function that is a static method of a class, and whose module is imported at its first use.

    Args:
        entry: ``room.file:function``.
    """

    def __init__(self, entry: str) -> None:
        self._entry = entry

    def __get__(self, instance: object, owner: type) -> Any:
        return find(self._entry, "")
