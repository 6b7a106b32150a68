"""Code that plugins share by framework; import these modules only where a model runs."""
