"""One module per API: `handle(broker, context, request)`, imported at the API's first request."""
