"""Partitions and their replicas: leader and follower roles, replica fetching, the ISR and the high watermark."""
