"""How pods take nodes and give them back, and who is told."""
