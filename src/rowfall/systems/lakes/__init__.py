"""Tables of Iceberg and Delta Lake: as sources, and Iceberg as a target."""
