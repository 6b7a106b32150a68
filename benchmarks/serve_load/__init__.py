"""Load for a server: talks in real time, its protocol, and its process."""
