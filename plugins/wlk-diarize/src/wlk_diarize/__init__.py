"""Find out who speaks when, in real time, by clustering or with a Sortformer."""
