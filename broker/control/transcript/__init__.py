"""The transcript: the last requests and responses of a broker, decoded when they are read."""
