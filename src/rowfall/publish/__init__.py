"""How staged rows become visible exactly once, and what ends attempts that a crash left open.

How rows reach staging belongs to deliver.
Imports plan and what lies below it.
"""
