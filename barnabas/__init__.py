"""Barnabas: a Kafka broker in pure Python, for people who would rather not start a JVM."""

__version__ = "0.1.0"
