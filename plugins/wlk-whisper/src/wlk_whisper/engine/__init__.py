"""Framework-independent decoding of Whisper; a Network runs the layers."""
