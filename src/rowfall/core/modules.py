"""Names of modules in registries."""

from __future__ import annotations


def module_of(name: str, room: str) -> str:
    """Return the full name of a module that a registry names.

    Args:
        name: ``file`` in the room of the registry, or ``systems.folder.file``.
    """
    return f"rowfall.{name}" if "." in name else f"rowfall.{room}.{name}"
