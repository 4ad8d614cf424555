"""PostgreSQL: as a source, and as a target whose rows come by COPY.

client: connections, names as SQL, what errors mean. types: those of PostgreSQL and ClickHouse, each
as the other has them. catalogue: what tables and queries hold. rows: what COPY sends and takes.
source: a table or query that is read. target: the address of a table and its DDL. connections:
those to a table that takes rows, and its errors; transaction: an attempt there; database: what else
a load asks and does.
Imports sources, targets, engines, core.
"""
