"""From sockets to frames and back: listening, connections, and what limits them."""
