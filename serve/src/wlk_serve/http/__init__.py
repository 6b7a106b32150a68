"""Who may ask, how bytes come in, and the server that listens."""
