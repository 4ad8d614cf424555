"""The engines: embedded ClickHouse in a child process, and servers over HTTP.

They alone run statements.

What a statement means belongs to sources, targets, schema and plan.
Imports core.
"""
