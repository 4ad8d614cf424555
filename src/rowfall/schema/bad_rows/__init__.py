"""Rows that do not fit: they are found, explained in plain words, and left out where allowed."""
