"""Pipelines as services: one watcher follows a pipeline, others stand by; it is started, stopped,
paused, asked how it is, and tried without writing.

``watcher`` is the process that follows, ``background`` starts and stops it on this machine,
``state`` is what can be said of a pipeline, ``preview`` shows rows, ``systemd`` writes units. How a
source is followed is run's, the lease and the log are the ledger's.
Imports project, report, run, destinations, plan, contracts, ledger, targets, core.
"""
