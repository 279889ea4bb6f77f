"""Whether enough pods can be placed at once: greedy passes, bounds, a search within a budget."""
