"""Which pods are evicted: the choice of kube-scheduler, or a better one by its own ranking.

kube-scheduler ranks nodes by violations of budgets, the highest priority of a victim, the sum of
their priorities, their number, and how late the first victim of the highest priority started. If
the victims differ, ours cost less by the first four, or the same. On one node kube-scheduler spares
the more important pods first, which may leave more victims than another choice there.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hypothesis import event, given, settings

from differential.judge import Judge
from differential.lockstep import Lockstep
from differential.preemption import cost, is_enough, preempting_scenes
from differential.profiles import PREEMPTING, rank_and
from differential.scene import Object, Scene
from gangsched import Preemption as Preempting
from support.examples import PROFILE

_SCENES: Final = {"fast": 12, "ci": 40, "deep": 600}


@given(scene=preempting_scenes())
@settings(max_examples=_SCENES[PROFILE])
def test_pods_are_preempted_as_by_kube_scheduler(judge: Judge, scene: Scene) -> None:
    ours = Lockstep(rank_and(), preemption=Preempting())
    nodes, running = judge.stage(scene)
    for stored in (*judge.namespaces, *judge.others, *nodes, *running):
        ours.tell("ADDED", _created_at_start(stored))
    (pod,) = scene.pending
    stored = judge.create(pod, PREEMPTING)
    found = ours.preemption(stored)
    expected = judge.preemption(stored, partial(is_enough, scene))
    if found == expected:
        event("the same victims")
        return
    assert expected.node, f"no pod is preempted by kube-scheduler, but {found} by ours"
    assert found.node, f"{expected} is preempted by kube-scheduler, and no pod by ours"
    own, theirs = cost(scene, found.victims), cost(scene, expected.victims)
    assert own <= theirs, f"{found} costs {own}, and {expected} only {theirs}"
    event("the same cost" if own == theirs else "a lower cost")


def _created_at_start(stored: Object) -> Object:
    """Return an object as if it had been created when it started; ours knows no start of a pod."""
    started = stored.get("status", {}).get("startTime")
    if started is None:
        return stored
    return {**stored, "metadata": {**stored["metadata"], "creationTimestamp": started}}
