"""Capacity is reserved for a gang that keeps failing, and others run meanwhile: backfill.

- ``run_times``: when pods end, and which gangs are exempt; ``look_ahead``: when a gang can start;
- ``candidates``: which gang gets the reservation; ``backfill``: make, keep and move it.
"""
