"""The only callers of plugins."""
