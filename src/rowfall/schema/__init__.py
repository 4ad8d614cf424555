"""What the data is: samples, inference, strict reading, and the rows that do not fit.

How rows travel and where they are stored is not decided here.
Imports sources, engines, core.
"""
