"""The modules of transformers as the network of a Nemotron engine, for several streams at once."""
