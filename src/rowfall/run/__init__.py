"""One load from start to end, and what is done about loads afterwards: resume, verify, clean.

What is shown of it belongs to report, and questions to plan.
Imports destinations, deliver, publish, plan, contracts, cluster, ledger, schema, systems, stores,
sources, targets, engines, decoder, core.
"""
