"""Find what to replace in the words of a clause, without a model."""
