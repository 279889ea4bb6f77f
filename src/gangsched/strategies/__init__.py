"""Hypothesis strategies: pods, nodes, groups, roles, events, clusters, workloads, fault plans.

Rules:
  R1  every argument is keyword-only, and a strategy or an upper bound on a count;
  R2  drawn values are valid. They shrink to few, small and equal values at one instant;
  R3  if gangsched is installed, ``st.from_type`` supports its nouns and events.
"""

from __future__ import annotations

try:
    import hypothesis as hypothesis
except ModuleNotFoundError as _error:  # the message names the extra to install
    raise ModuleNotFoundError(
        "gangsched.strategies needs: pip install 'gangsched[testing]'", name="hypothesis"
    ) from _error

from gangsched.strategies._events import clusters, events
from gangsched.strategies._faults import faults
from gangsched.strategies._nouns import nodes, pod_groups, pods, resources
from gangsched.strategies._roles import roles
from gangsched.strategies._workloads import workloads

__all__ = [
    "clusters",
    "events",
    "faults",
    "nodes",
    "pod_groups",
    "pods",
    "resources",
    "roles",
    "workloads",
]
