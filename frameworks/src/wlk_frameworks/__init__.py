"""What plugins share; each framework is imported by its own modules alone."""
