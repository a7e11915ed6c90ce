"""Handlers of what means something else to controllers than to brokers, named as those of `broker.handlers`."""
