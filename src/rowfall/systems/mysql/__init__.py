"""MySQL, MariaDB and SingleStore: tables and queries that are read, tables that rows go into.

``client.py`` has what both directions know of a server: connecting, sessions, errors by number,
names and literals; ``catalogue.py`` what the catalogue says of columns; ``types.py`` their types in
both directions. ``source.py`` reads (rows as text in ``rows.py``).
``target.py`` has the address and DDL of a target, ``connections.py`` the sessions for its table,
``record.py`` which splits are loaded, ``replacing.py`` the exchange of two tables,
``statements.py`` and ``transaction.py`` the rows of one attempt, ``bulk.py`` and ``packed.py`` how
they look on the way, ``database.py`` what else a load asks and does there.
``session.py`` has the sockets of sessions, ``wire.py`` the packets that go over them between two
statements of PyMySQL. ``pipelines.py`` is about pipelines of SingleStore.
Imports sources, targets, engines, core.
"""
