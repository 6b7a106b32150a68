"""The protocol: requests of a stream, messages of a server; no input or output."""
