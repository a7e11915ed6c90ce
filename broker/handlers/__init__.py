"""One module an API: `handle(broker, context, request)`, imported at its first request."""
