"""Which entity is worth a scheduling cycle, and when a parked one is requeued."""
