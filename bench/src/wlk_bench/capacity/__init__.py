"""How many sessions a machine keeps, how many machines a load needs, and what they cost."""
