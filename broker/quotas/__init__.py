"""Quotas of clients and replicas, and the throttling of those above (KIP-13, KIP-55, KIP-73, KIP-124, KIP-219)."""
