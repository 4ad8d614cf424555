"""Values and small pure tools that every room uses: errors, events, options, SQL text, units.

Nothing here opens a file, a connection or a process.
Imports the standard library and nothing of rowfall.
"""
