"""SQLite: a file as a source, read by the module of Python's standard library.

client: opening a file, and what errors mean. columns: types, and the text of each value. source: a
table, view or query; tables: all of a file. Nothing is written into it. Imports sources, engines,
core.
"""
