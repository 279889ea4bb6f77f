"""What keeps a complete gang from the queue: quotas, and restarts."""
