"""The state of a scheduler as JSON, and back."""
