"""Barnabas: a Kafka broker in pure Python."""

__version__ = "0.1.0"
