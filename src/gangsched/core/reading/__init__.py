"""What is read of a scheduler: it changes nothing, and runs nothing."""
