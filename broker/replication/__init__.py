"""Partitions and their replicas: led, followed, copied, and counted as committed."""
