"""Everything about the program rowfall-decode (crates/rowfall-decode), and nothing else knows it.

installed finds it, process runs it for an attempt and reads how it ended, rewriting runs it for
foreign text before an engine reads it. Whether it is used is decided in plan, and where its rows go
in deliver. Imports core.
"""
