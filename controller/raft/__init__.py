"""KRaft consensus (KIP-595) without I/O: events in, one Ready at a time out."""
