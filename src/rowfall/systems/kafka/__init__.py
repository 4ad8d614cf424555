"""Topics of Kafka: one client, a source that reads them and a target that writes them.

client (addresses, questions, the loop that reads) and errors are for both. source, and what makes
files of its messages: messages, avro and protobuf with schema_registry. target (address and SQL),
and database, which takes rows: producer and rows are its hot loop, record says what is loaded.
Imports core and the bases of sources, targets and engines.
"""
