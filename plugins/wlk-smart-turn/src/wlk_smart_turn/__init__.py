"""A turn detector: in a pause, smart-turn v3 decides whether the speaker has finished."""
