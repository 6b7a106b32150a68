"""The client: addresses, sockets, servers, and their errors."""
