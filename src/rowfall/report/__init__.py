"""What people and programs are shown: progress, plans, reports, projections.

Nothing here asks an engine or reads a ledger.
Imports core, and the values that measure returns.
"""
