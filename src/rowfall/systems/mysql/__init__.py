"""MySQL, MariaDB and SingleStore: tables and queries that are read, tables that rows go into.

``client.py`` has names, literals and the lines both sides speak of; ``source.py`` reads (its types
in ``types.py``, rows as text in ``rows.py``, in binary in ``packets.py``). ``target.py`` has the
address and DDL of a target, ``database.py`` what a load asks and does there, ``transaction.py``
the rows of one attempt, which ``wire.py``, ``bulk.py`` and ``packed.py`` send; ``pull.py`` and
``pipelines.py`` are pipelines of SingleStore.
Imports sources, targets, engines, core.
"""
