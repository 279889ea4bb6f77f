"""One decision: the scheduling cycle of one pod, or of a whole gang."""
