"""Stores of bytes: files, objects, web servers, HDFS, archives, standard input, rows in memory.

One file a scheme, named in the registry of rowfall.sources, and what they share: objects (what can
be read again), buckets, object_stores, first_bytes, completeness, globs, patience, spool. archives
gives the members of files of any scheme. What the bytes mean is not decided here: that is schema.
Imports sources, decoder, core. Modules load when their scheme is used.
"""
