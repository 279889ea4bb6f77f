"""State machines of the scheduler; each one works alone, without the framework.

They do not sleep, lock, log, read a clock, draw random numbers or do I/O.
"""
