"""Ask plugins and quotas again about all that they refused.

A plugin may accept more than before although no node, pod or object has changed: it has said so, or
it was made with other arguments when the scheduler was restarted.

Rules:
  R1  what only lacks capacity stays parked: it is tried again if it may fit the nodes now;
  R2  what waits for a quota is asked in queue order, and what was charged meanwhile counts.
"""

from __future__ import annotations

from gangsched.framework.events import move_entity
from gangsched.framework.queueing import quotas, requeue
from gangsched.framework.state.scheduler_state import State

__all__ = ["ask_plugins", "ask_quotas"]


def ask_plugins(state: State, *, now: float) -> None:
    """Requeue what plugins refused, and ask ``pre_enqueue`` again.

    Runtime complexity: O(classes of pods + parked classes + entities in backoff + gated entities).
    """
    for pod_class in state.pod_classes.by_signature.values():
        pod_class.judgements.forget()
    requeue.objects_changed(state, None, now=now)
    for entity in state.queue.unschedulable:
        if state.queue.is_gated(entity):
            move_entity.move_if_needed(state, entity, now=now)


def ask_quotas(state: State, *, now: float) -> None:
    """Admit the groups that fit their quotas now. O(n log n) for n groups that wait."""
    for waiting in quotas.that_fit(state.pods):
        # the first of them may leave too little for the next, which is then refused
        move_entity.move(state, waiting, now=now)
