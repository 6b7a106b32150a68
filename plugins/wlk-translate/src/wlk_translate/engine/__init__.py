"""From committed tokens to translated clauses, whatever translates them."""
