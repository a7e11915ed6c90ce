"""One replica's durable log, in Kafka's on-disk format. Pure but for `disk.py`; imports only `protocol`."""
