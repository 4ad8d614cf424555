"""How the rows of an attempt reach staging: pulled, pushed, decoded, or as finished parts.

Which way is taken is decided in plan; what happens to staged rows is up to publish.
Imports plan, contracts, cluster, schema, systems, stores, sources, targets, engines, decoder, core.
"""
