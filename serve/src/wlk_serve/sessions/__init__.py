"""A client's session over a socket, whatever protocol it speaks."""
