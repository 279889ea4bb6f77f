"""Forking: a copy of a scheduler that can be run without changing the original."""
