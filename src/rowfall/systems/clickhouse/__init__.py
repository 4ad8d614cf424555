"""ClickHouse: a server over HTTP, the engine in a child process, and a data folder; its tables as
a source and as a target.

``http`` has the requests, ``status`` what became of a statement, ``codes`` what its errors mean;
``server`` and ``embedded`` are the engines made of them. How staged rows become visible, and tables
on the nodes of a cluster, are the rooms above: destinations, publish, cluster.
"""
