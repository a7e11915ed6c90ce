"""Handlers of APIs that have another meaning on a controller's listener; named as in `broker.handlers`."""
