"""Our scheduler in step with kube-scheduler: it is told the same, and decides about each pod too.

It is one scheduler for the whole scene, driven through the public calls and reading the objects
that the API server stored, so that its readers, caches and plugins are all under test.
"""

from __future__ import annotations

from typing import Final

from differential.judge import Judge
from differential.preemption import Preemption
from differential.scene import Object, Scene
from differential.verdict import Verdict, placed, refused
from gangsched import (
    Bind,
    Bound,
    InMemoryCluster,
    Nominated,
    PodUnschedulable,
    Profile,
    Scheduler,
)
from gangsched import Preemption as Preempting
from gangsched.kubernetes import read_notification
from gangsched.membership import ungrouped
from gangsched.model import NodeName, PodUID

__all__ = ["Lockstep", "compare"]


class Lockstep:
    """A scheduler with *profile*, which must score by the rank; see ``profiles``."""

    def __init__(self, profile: Profile, *, preemption: Preempting | None = None) -> None:
        self._cluster: Final = InMemoryCluster()
        self._scheduler: Final = Scheduler(
            self._cluster, profile, membership=ungrouped, preemption=preemption
        )
        self._now = 0.0
        self._attempt = 0

    def tell(self, kind: str, given: Object) -> None:
        """Handle one event of a watch: ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        event = read_notification({"type": kind, "object": given}, scheduler_names=None).event
        assert event is not None
        self._now += 1.0
        self._scheduler.handle(self._cluster.apply(event), now=self._now)

    def verdict(self, pod: Object) -> Verdict:
        """Decide about a pending pod; tell it what kube-scheduler decided by ``follow`` then."""
        uid = pod["metadata"]["uid"]
        self.tell("ADDED", pod)
        while (effects := self._scheduler.schedule_one(now=self._now)) is not None:
            for effect in effects:
                match effect:
                    case Bind(uid=bound, node=node, attempt=attempt) if bound == uid:
                        self._attempt = attempt
                        return placed(node)
                    case PodUnschedulable(uid=refused_uid, reason=reason) if refused_uid == uid:
                        return refused(reason)
        raise AssertionError(f"the scheduler decided nothing about {pod}")

    def preemption(self, pod: Object) -> Preemption:
        """Decide about a pending pod; return the node that is nominated for it, and its victims."""
        found = Preemption()
        self.tell("ADDED", pod)
        while (effects := self._scheduler.schedule_one(now=self._now)) is not None:
            for effect in effects:
                match effect:
                    case Bind(node=node):
                        found = Preemption(node)
                    case Nominated(places=((_uid, node),), victims=victims):
                        gone = (self._cluster.pod(uid) for uid in victims)
                        names = (pod.name for pod in gone if pod is not None)
                        found = Preemption(node, frozenset(names))
        return found

    def follow(self, pod: Object, judged: Verdict) -> None:
        """Go on as kube-scheduler decided: the pod is on its node, or is gone."""
        uid = PodUID(pod["metadata"]["uid"])
        if judged.node:
            bound = Bound(uid, NodeName(judged.node), self._attempt)
            self._scheduler.handle(self._cluster.apply(bound), now=self._now)
        else:
            self.tell("DELETED", pod)


def compare(judge: Judge, scene: Scene, profile: Profile, *, scheduler_name: str = "") -> None:
    """Check that both schedulers decide alike about each pending pod.

    Args:
        judge: kube-scheduler.
        scene: What is decided about.
        profile: Our plugins.
        scheduler_name: The profile of kube-scheduler; empty for its filters.
    """
    ours = Lockstep(profile)
    nodes, running = judge.stage(scene)
    for stored in (*judge.namespaces, *judge.others, *nodes, *running):
        ours.tell("ADDED", stored)
    for pod in scene.pending:
        if pod["spec"].get("nodeName"):
            ours.tell("ADDED", judge.bind(pod))
            continue
        stored = judge.create(pod, scheduler_name)
        expected = judge.verdict(stored)
        found = ours.verdict(stored)
        assert found == expected, f"about pod {pod['metadata']['name']}"
        for changed in judge.changed() if expected.node else ():
            ours.tell("MODIFIED", changed)
        ours.follow(stored, expected)
