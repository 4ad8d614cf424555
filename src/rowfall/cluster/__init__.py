"""What a cluster is, and the tables in it."""
