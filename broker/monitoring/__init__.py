"""Monitoring: counters, metrics in Prometheus' format, and health probes; the HTTP server only if enabled."""
