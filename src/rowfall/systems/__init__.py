"""One folder for each system: its client, and what it is as a source and as a target.

A folder imports core and what sources, targets and engines have for all systems, and no other
folder here. The registries of these rooms name its modules.
Imports stores, sources, targets, engines, decoder, core.
"""
