"""Write numbers as digits, spell names as a glossary does, and mask private or rude words."""
