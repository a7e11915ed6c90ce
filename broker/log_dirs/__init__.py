"""The data directories of a broker: ownership, loading, cleaning, moves between them and failures."""
