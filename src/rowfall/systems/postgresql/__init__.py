"""PostgreSQL: one client, as a source and as a target."""
