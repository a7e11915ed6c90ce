"""Network layer: listeners, connections and their limits, and the client for other nodes."""
