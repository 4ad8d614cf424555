"""Loads as other programs watch them: metrics for Prometheus, OTLP, and lineage for OpenLineage.

Listeners of events; nothing that runs a load knows them. Each client library is an extra, imported
only where somebody has asked for it by an option or by the variables of its standard.
Imports core.
"""
