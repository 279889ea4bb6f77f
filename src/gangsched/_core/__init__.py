"""Pure machines, each usable alone.

Nothing here sleeps, locks, logs, reads a clock, draws a random number or does I/O.
"""
