"""A deterministic simulator of the protocol.

The code of rowfall runs as it is: load, settle, attempts, journal, publisher, recovery, ledger.
What it runs against is a model: a server (:mod:`server`) that carries out the SQL that is sent, the
way there and its faults (:mod:`network`), the disk, and other people (:mod:`faults`). One seed
decides everything (:mod:`scheduler`), so it repeats a run step by step. :mod:`world` starts
processes, and :mod:`properties` says what must be true at any moment and in the end.

``python -m simulator --seed 7`` (in ``tests``) prints one run, ``--seeds 0-9999`` searches many.
"""
