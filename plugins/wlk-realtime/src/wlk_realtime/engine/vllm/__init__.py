"""The dialect of vLLM's realtime endpoint, which transcribes with Voxtral Realtime."""
