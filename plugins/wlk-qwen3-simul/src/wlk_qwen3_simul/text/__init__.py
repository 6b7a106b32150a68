"""What the model is told and says: tokens, the prompt, the header, words."""
