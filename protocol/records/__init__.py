"""Records that Kafka stores in logs, one module for each kind: metadata, offsets, transactions, control records."""
