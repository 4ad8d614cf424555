"""Everything about the program rowfall-decode (crates/rowfall-decode), and nothing else knows it.

installed finds it and names one of another version; documents are the JSON that it takes; process
runs it for an attempt and reads how it ended; sampling asks it about a sample; rewriting runs it
for foreign text before an engine reads it; abilities are what it can do. Whether it is used is
decided in plan, and where its rows go in deliver. Imports core.
"""
