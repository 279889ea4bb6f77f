"""Which capacity is reserved for a pending gang, and which pods may use it meanwhile."""
