"""Protocols as plain objects: messages in, calls of streams, messages out; no sockets."""
