"""The loaded model: its description for clients, and its streams."""
