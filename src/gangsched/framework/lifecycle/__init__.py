"""The states of an attempt: assume, wait on permit, release, reject."""
