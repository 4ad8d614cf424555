"""The project file ``rowfall.toml``: named connections, loads and pipelines, and their settings.

``find_project`` finds and reads it; ``load`` and ``pipeline`` of what it returns give frozen values
with every layer applied: options of the command line win over the environment, that over the
project's file, that over the user's own, that over defaults. What runs a load lives elsewhere.
Nothing here imports a TOML library before there is a file to read.
Imports report, run, destinations, plan, targets, core.
"""

from rowfall.project.project import Project, connection_names, find_project
from rowfall.project.values import Hook, Hooks, NamedConnection, NamedLoad, Origin

__all__ = [
    "Hook", "Hooks", "NamedConnection", "NamedLoad", "Origin", "Project", "connection_names",
    "find_project",
]  # fmt: skip
