"""Facts about the data: samples, types, strict reading, lines of text, rows that do not fit.

sampling and inference decide columns and layout, from options and the table that is there. text/
knows how lines are written, types/ says how each column is read strictly, and bad_rows/ finds,
explains and leaves out what a strict reader refuses. How rows travel and where they are stored is
not decided here.
Imports systems, stores, sources, engines, decoder, core.
"""
