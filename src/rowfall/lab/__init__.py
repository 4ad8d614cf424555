"""A private ClickHouse cluster on this machine: real servers, to try out and to test with.

Nothing that a load needs lives here.
Imports core.
"""
