"""Topics of Kafka: one client, a source that reads them and a target that writes them.

client (addresses, properties, metadata, errors, the consumer), source and what makes files of its
messages (messages, avro and protobuf with schema_registry), target (address and SQL), database
(what takes rows: the record of loads, transactions) with producer and rows (its hot loop).
Imports core and the bases of sources, targets and engines.
"""
