"""What a user sets: the profile, the scheduling unit, preemption, backfill; and the cycle state."""
