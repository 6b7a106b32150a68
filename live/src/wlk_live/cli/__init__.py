"""The commands of recordings and microphones."""
