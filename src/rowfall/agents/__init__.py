"""Tools for agents: rowfall as a server of the Model Context Protocol (``rowfall mcp``).

Each tool runs a command of rowfall as a process of its own and returns its JSON document, so an
agent can do what the command line can, is told the same, and ends a command by taking back its
request. Imports core.
"""
