"""Values and small pure tools that every room uses: errors, events, options, SQL text, units.

Nothing here opens a connection or a process; files are opened in ``disk`` alone.
Imports the standard library and nothing of rowfall.
"""
