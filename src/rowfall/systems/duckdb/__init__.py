"""DuckDB: files of one database, as a source and as a target.

client: opening a file, what errors mean, and rows of views and queries, in a child.
types: of either in the words of the other. source, target: the address of a table and its DDL;
database: the table, and an attempt to load into it.
Imports sources, targets, engines, core.
"""
