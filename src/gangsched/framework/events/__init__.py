"""Events in: which part of the state an event changes, and what is requeued for it."""
