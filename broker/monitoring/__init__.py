"""Monitoring: metrics in Prometheus' format, and health probes. Imported only if enabled."""
