"""Tables of ClickHouse, embedded, on a server or on a cluster: staged beside, then attached.

``tables`` names the moments of a load, each of which is a file here: ``settle``, ``survey``,
``prepare``. ``folder`` and ``server`` are the two kinds.
"""
