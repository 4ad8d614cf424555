"""Contracts between rooms: session, facts and state of a load, the protocol of destinations.

A destination is where the rows of a load go. Each kind of it is one class of
:mod:`rowfall.destinations` behind :class:`rowfall.contracts.destination.Destination`; nothing else
asks which kind it is.
Imports cluster, ledger, schema, systems, sources, targets, engines, core.
"""
