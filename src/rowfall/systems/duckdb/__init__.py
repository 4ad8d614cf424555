"""DuckDB: files of one database, as a source and as a target.

client: opening a file, names as SQL, what errors mean. types: those of DuckDB and ClickHouse, each
as the other has them. source: a table or query that is read. target: the address of a table and its
DDL. database: the table that takes rows, and an attempt there.
Imports sources, targets, engines, core.
"""
