"""Packing: greedy passes, upper bounds, and a search within a budget."""
