"""Which running pods are evicted so that a pending pod or gang of higher priority fits."""
