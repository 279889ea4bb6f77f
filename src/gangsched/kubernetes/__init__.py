"""The adapter to a Kubernetes API server.

What is here so far is the pure half: what a watch says, as facts, and what is decided, as
requests. It needs no client and no cluster.
"""

from __future__ import annotations

from gangsched.kubernetes.convert import binding, deletion, fact, unschedulable_condition

__all__ = ["binding", "deletion", "fact", "unschedulable_condition"]
