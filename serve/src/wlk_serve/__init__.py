"""A server for any backend, which the clients of OpenAI's audio API use unmodified."""
