"""Forecasts from measurements: the rate of one core, several nodes, and each link of a load.

Loads themselves belong to run.
Imports run, destinations, plan, contracts, ledger, schema, systems, sources, targets, core.
"""
