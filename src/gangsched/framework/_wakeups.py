"""Who is woken by what.

Rules:
  R1  readiness is a level: after every fact, whoever may now be placed is tried, or is behind
      one of its shape that is;
  R2  a hint never errs on the side of sleep: who is left asleep cannot be placed. A fact matters
      to an entity when a changed node can take one of its pods, and the cluster as a whole has
      room for as many as it needs;
  R3  nodes that a falling group gives back are no news to whoever failed before it held them,
      nor to the group itself: so nobody is tried again for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from gangsched.errors import GangschedError
from gangsched.framework import _points
from gangsched.framework._state import State
from gangsched.framework.pod_class import PodClass
from gangsched.model import NodeName

__all__ = ["gain", "may_fit"]


def gain(
    state: State, names: Collection[NodeName], *, now: float, since: int | None = None
) -> None:
    """Open the lines that nodes with more room than before may help.

    Runtime complexity: O(lines x classes in a shape), plus judging the changed nodes once per
    class.

    Args:
        state: The scheduler's memory.
        names: The nodes that may take more.
        now: The current instant.
        since: For nodes given back by a group that fell: the step at which it took the first.
            None for a fact from outside.
    """
    if not names:
        return
    if since is None:
        state.stirred.update(state.holding)
    step = state.tick()
    for line in state.queue.blocked_lines():
        if since is not None and line.blocked_at < since:
            continue
        if may_fit(state, line.shape, now=now, names=names):
            state.queue.open(line, step=step, now=now)
        else:
            state.queue.block(line, step=step)


def may_fit(
    state: State, shape: Hashable, *, now: float, names: Collection[NodeName] | None = None
) -> bool:
    """Say whether entities of a shape may be placed; False only when they cannot.

    Args:
        state: The scheduler's memory.
        shape: See ``State.shape``. What is not known in detail may always fit.
        now: The current instant.
        names: Ask only whether a change of these nodes may matter.
    """
    if not isinstance(shape, tuple):
        return True
    needed: int
    counts: frozenset[tuple[PodClass, int]]
    needed, counts = shape
    touched = names is None
    for pod_class, count in counts:
        try:
            _points.judged(state, pod_class, now)
        except GangschedError:
            return True  # its own cycle will raise it, and name the pod
        needed -= min(count, pod_class.headroom)
        touched = touched or any(pod_class.takes(name) for name in names or ())
    return touched and needed <= 0
