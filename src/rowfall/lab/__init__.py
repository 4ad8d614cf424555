"""A private ClickHouse cluster on this machine: real servers, to try out and to test with."""
