"""Tables of Iceberg and Delta Lake: as sources, and Iceberg as a target.

catalogue: catalogues of pyiceberg's configuration. folder_catalogue: a folder as one.
types: types of Iceberg, Delta and ClickHouse, each as the other has them.
source: what sources of both kinds share. iceberg_source, iceberg_metadata: Iceberg as a source.
delta_source: Delta as a source. target: the address of a table and its options.
destination: the table that takes rows. parquet_files: its data files.
Imports sources, targets, engines, core.
"""
