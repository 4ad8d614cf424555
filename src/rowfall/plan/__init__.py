"""Everything that is known and decided before a load: the survey of facts and the planner.

Nothing here writes to a target.
Imports contracts, cluster, ledger, schema, systems, stores, sources, targets, engines, decoder,
core.
"""
