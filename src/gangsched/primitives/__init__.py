"""What works alone, without the framework: gangs and how they stand, order, waits, a heap.

They do not sleep, lock, log, read a clock, draw random numbers or do I/O.
"""
