"""Client sessions over sockets, in any protocol."""
