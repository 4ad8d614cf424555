"""MySQL, MariaDB and SingleStore: one client, as a source and as a target."""
