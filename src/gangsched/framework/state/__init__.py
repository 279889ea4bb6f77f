"""What the scheduler remembers between two calls."""
