"""The nodes: what is free, what is held, which are in equal states."""
