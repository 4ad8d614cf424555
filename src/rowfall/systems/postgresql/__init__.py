"""PostgreSQL: as a source, and as a target whose rows come by COPY.

client: connections, names as SQL, what errors mean. source, catalogue, rows, types: a table or
query that is read. target: the address of a table and its DDL. database: the table that takes rows;
transaction: an attempt there. binary: rows of COPY in binary.
Imports sources, targets, engines, core.
"""
