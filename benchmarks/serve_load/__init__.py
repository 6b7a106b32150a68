"""Load for servers: talks in real time, the protocols of two servers, and their processes."""
