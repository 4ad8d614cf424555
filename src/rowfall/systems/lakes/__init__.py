"""Tables of Iceberg and Delta Lake: as sources, and Iceberg as a target.

catalogue, folder_catalogue: what knows the newest state of a table of Iceberg. files: its files,
keys and addresses. types: types of Iceberg, Delta and ClickHouse, each as the others have them.
source: what sources of both kinds share. iceberg_source, iceberg_metadata: Iceberg as a source.
delta_source: Delta as a source. target: the address of a table and its options. destination: the
table that takes rows. record: what is loaded. layout: partitions, order. parquet_files: data files.
Imports sources, targets, engines, core.
"""
