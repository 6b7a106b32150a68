"""Generate load for a server: speech in real time, client protocols, and the server process."""
