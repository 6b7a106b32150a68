"""The network client: addresses, connections, servers and errors."""
