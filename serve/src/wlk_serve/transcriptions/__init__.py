"""OpenAI's audio endpoints: an uploaded recording becomes text."""
