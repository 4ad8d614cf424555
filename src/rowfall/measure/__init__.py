"""Forecasts from measurements: the rate of one core, and loads projected to several nodes.

Loads themselves belong to run.
Imports run, destinations, plan, contracts, ledger, systems, sources, targets, core.
"""
