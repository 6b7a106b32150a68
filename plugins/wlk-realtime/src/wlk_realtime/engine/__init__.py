"""The protocol: requests of streams and messages of servers, without input or output."""
