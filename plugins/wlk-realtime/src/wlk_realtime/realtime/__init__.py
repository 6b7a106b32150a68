"""The client: address, event loop, sockets and their errors."""
