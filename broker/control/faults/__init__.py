"""Faults by rule: errors, delays, lost connections and damaged responses for exactly the requests that a test names."""
