"""What monitoring systems ask for: metrics in Prometheus' format, and probes. Imported only where asked for."""
