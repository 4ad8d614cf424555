"""Receivers, which make staged rows visible exactly once; recovery of open attempts after a crash.

How rows reach staging belongs to deliver.
Imports plan, contracts, cluster, ledger, schema, systems, targets, engines, core.
"""
