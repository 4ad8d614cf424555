"""Clusters: which nodes there are, their tables and DDL, sharding keys, the writers of a load.

How a load is shared out among shards lives in plan, how rows get there in deliver.
Imports ledger, schema, systems, targets, engines, core.
"""
