"""Durable logs and checkpoint files in Kafka's on-disk format. Only `disk.py` does I/O; imports only `protocol`."""
