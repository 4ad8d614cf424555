"""Benchmarks: ``make bench``. Never part of the tests, never installed."""
