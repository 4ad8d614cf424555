"""Starters of the real services that the tests run against, each on 127.0.0.1 with its own data."""
