"""Forecasts from measurements: the rate of one core, several nodes, each link of a load; and loads
of published articles, measured as processes.

Loads themselves belong to run.
Imports run, destinations, plan, contracts, cluster, ledger, schema, systems, sources, targets, lab,
core.
"""
