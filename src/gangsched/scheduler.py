"""The scheduler that presets, hosts, simulations, the command and Kubernetes use.

There are two, behind the same four calls, and this module alone chooses one: ``framework``, and
``core``, which replaces it. See decision 0079.
"""

from __future__ import annotations

from gangsched.framework.scheduler import Scheduler

__all__ = ["Scheduler"]
