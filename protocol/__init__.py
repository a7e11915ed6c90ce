"""Kafka's wire protocol: encodes and decodes messages. Does no I/O and imports no other package of this project."""
