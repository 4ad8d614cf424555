"""Clusters: nodes and shards, tables and DDL on all of them, sharding keys.

How a load uses shards belongs to plan, deliver and publish.
Imports ledger, schema, targets, engines, core.
"""
