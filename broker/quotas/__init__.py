"""Quotas of users and client ids, and the throttling of clients above them (KIP-13, KIP-55, KIP-124, KIP-219)."""
