"""Questions that change nothing: why, the lists, what if, and the smallest change."""
