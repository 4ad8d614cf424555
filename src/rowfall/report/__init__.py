"""The texts and JSON documents that are shown: progress, plans, reports, projections.

Nothing here asks an engine or reads a ledger.
Imports core.
"""
