"""Questions that change nothing: why an entity is pending, and what would start it."""
