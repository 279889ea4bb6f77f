"""A preemptor that a plugin refuses before any node is looked at bars no node."""

from __future__ import annotations

from gangsched import (
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    Preemption,
    Success,
    Unschedulable,
    presets,
)
from gangsched.framework.preemption.preemptor import SinglePod
from gangsched.framework.preemption.victim_budget import VictimBudget
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin


def test_refused_preemptor_bars_no_node() -> None:
    faulty = FaultyPlugin("pre_filter", "filter", "reads_pods", "pod_signature")
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(make_node("n", cpu=1)))
    cluster.apply(PodAdded(make_pod("p", cpu=1)))
    scheduler = presets.coscheduling(cluster, plugins=[faulty], preemption=Preemption())
    scheduler.rebuild(now=0.0)
    state = scheduler._state
    (member,) = state.pods.members.values()
    faulty.answers["reads_pods"] = True
    faulty.answers["filter"] = Unschedulable("never", resolvable=False)
    for answer, barred in ((Unschedulable("not now"), 0), (Success(), 1)):
        faulty.answers["pre_filter"] = answer
        preemptor = SinglePod(
            state.settings, state.nodes, state.pods, member, 0.0, VictimBudget(1000, 1000)
        )
        preemptor.bar_nodes()
        assert len(preemptor._barred) == barred
