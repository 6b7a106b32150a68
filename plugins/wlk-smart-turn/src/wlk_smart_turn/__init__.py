"""A turn detector: smart-turn v3 decides in a pause whether the speaker has finished."""
