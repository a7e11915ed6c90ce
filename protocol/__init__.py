"""Kafka's protocol: bytes to messages and back. Pure, and imports nothing of ours."""
