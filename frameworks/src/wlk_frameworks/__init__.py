"""What plugins share on torch, MLX and CTranslate2; each module imports its framework alone."""
