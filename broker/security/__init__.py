"""Security of listeners: TLS, the principals of client certificates, and SASL."""
