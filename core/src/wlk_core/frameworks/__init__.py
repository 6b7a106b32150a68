"""What plugins on one framework share; plugins import these modules where they run a model."""
