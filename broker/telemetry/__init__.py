"""Client telemetry: which metrics clients are asked to push, and the limits on what they push (KIP-714)."""
