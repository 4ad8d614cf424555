"""Real services on this machine, to try out and to test with: a ClickHouse cluster and others.

Nothing that a load needs lives here. A program is never downloaded: it is found, or named.
Imports core.
"""
