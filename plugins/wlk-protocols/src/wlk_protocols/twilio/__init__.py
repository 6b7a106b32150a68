"""Serve the media streams of Twilio's phone calls from wlk-serve."""
