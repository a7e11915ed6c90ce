"""The log of one partition replica: segments, indexes, producer state, leader epochs, loading and recovery."""
