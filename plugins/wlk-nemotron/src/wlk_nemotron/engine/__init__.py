"""The recognizer of a Nemotron stream, whatever framework runs the network."""
