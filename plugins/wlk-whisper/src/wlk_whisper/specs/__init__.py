"""The declarations of the backends; nothing heavy is imported here."""
