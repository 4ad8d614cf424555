"""Topics of Kafka: one client, as a source and as a target."""
