"""Code that plugins of one framework share; import these modules only where a model runs."""
