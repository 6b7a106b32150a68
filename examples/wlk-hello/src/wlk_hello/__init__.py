"""A backend that emits "hello" for every burst of sound."""
