"""What both plugins for Voxtral Realtime share: all but the framework that runs the model."""
