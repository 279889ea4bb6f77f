"""An attempt: which members, where, what they take, and how it fails."""
