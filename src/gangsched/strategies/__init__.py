"""Hypothesis strategies for the nouns, the facts, and what is made of them.

Rules:
  R1  every argument is a strategy, or a bound on how many, and keyword-only;
  R2  what is drawn is valid, and shrinks to the plainest there is: few, small, alike, at once;
  R3  where the library is installed, ``st.from_type`` knows its nouns and facts.
"""

from __future__ import annotations

try:
    import hypothesis as hypothesis
except ModuleNotFoundError as _error:  # said in our words, for who installs by error message
    raise ModuleNotFoundError(
        "gangsched.strategies needs: pip install 'gangsched[testing]'", name="hypothesis"
    ) from _error

from gangsched.strategies._facts import clusters, events
from gangsched.strategies._faults import faults
from gangsched.strategies._nouns import nodes, pod_groups, pods, resources
from gangsched.strategies._workloads import workloads

__all__ = [
    "clusters",
    "events",
    "faults",
    "nodes",
    "pod_groups",
    "pods",
    "resources",
    "workloads",
]
