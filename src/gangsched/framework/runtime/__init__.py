"""Calls the extension points of plugins; no other package does."""
