"""Handlers of APIs, `handle(broker, context, request)`, imported at the first request (`broker.routes`)."""
