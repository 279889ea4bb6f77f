"""Laws 5, 8 and 11: a pod that changes at any time is never bound where it must not run.

Pods and their group are changed while they are pending, wait on permit, are nominated, or are being
bound. At each ``Bind`` the pod, as it is then, fits its node, beside all that is bound or is being
bound. At each instant the scheduler comes to rest.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any, Final

import pytest
from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Node,
    NodeAdded,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUpdated,
    Preemption,
)
from gangsched.testing import make_node, make_pod
from support.changed_fields import GROUP, POD
from support.kube_rules import refusal
from support.story import Story, Way
from support.story_presets import PRESETS

pytestmark = pytest.mark.once("draws the preset")

NAMES: Final = ("s", "t", "u", "alone")
_BY_OTHERS: Final = {"node_name", "phase", "deleted_at"}
"""What a host, a kubelet or another scheduler writes; a pod that is bound has no decision left."""


@define(eq=False)
class Watched(Story):
    """A story that checks each ``Bind`` when it is posted, before the host performs it."""

    def _perform(self, effects: Any) -> None:
        posted = [each for each in effects if isinstance(each, Bind)]
        if posted:
            self._check(posted)
        super()._perform(effects)

    def _check(self, posted: list[Bind]) -> None:
        pods = {pod.uid: pod for pod in self.cluster.pods()}
        nodes = {node.name: node for node in self.cluster.nodes()}
        there = {bind.uid: bind.node for bind in self.binds if bind.uid in pods}
        there |= {pod.uid: pod.node_name for pod in pods.values() if pod.node_name is not None}
        for bind in posted:  # one that is repeated after a restore stands beside all but itself
            there.pop(bind.uid, None)
        placed = [(pods[uid], nodes[name]) for uid, name in there.items() if name in nodes]
        new = [(pods[bind.uid], nodes[bind.node]) for bind in posted]
        for pod, node in new:
            assert not pod.is_gated, pod
            assert _matches(pod, node), (pod, node)
        # the members of a gang are placed one after the other, in an order that is not shown
        found = [_first_refusal(list(nodes.values()), placed, order) for order in permutations(new)]
        assert None in found, (posted, found[0])


def _first_refusal(
    nodes: list[Node], placed: list[tuple[Pod, Node]], order: tuple[tuple[Pod, Node], ...]
) -> str | None:
    so_far = list(placed)
    for pod, node in order:
        reason = refusal(nodes, so_far, pod, node, {"default": {}})
        if reason is not None:
            return f"{pod.name} on {node.name}: {reason}"
        so_far.append((pod, node))
    return None


def _matches(pod: Pod, node: Node) -> bool:
    """Return whether a pod may go to a node as far as only these two matter."""
    tolerates = {toleration.key for toleration in pod.tolerations}
    terms = [
        all(each.values == (node.labels.get(each.key),) for each in term.requirements)
        for term in pod.affinity
    ]
    return (
        all(node.labels.get(key) == value for key, value in pod.node_selector.items())
        and (not terms or any(terms))
        and {taint.key for taint in node.taints} <= tolerates
        and set(pod.required_features) <= set(node.declared_features)
        and not pod.volume_claims  # there is no claim of any name
    )


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("pod"),
            st.sampled_from(NAMES),
            st.sampled_from([name for name in POD if name not in _BY_OTHERS]).flatmap(
                lambda name: st.tuples(st.just(name), st.sampled_from(POD[name]))
            ),
        ),
        st.tuples(
            st.just("group"),
            st.just("g"),
            st.sampled_from(list(GROUP)).flatmap(
                lambda name: st.tuples(st.just(name), st.sampled_from(GROUP[name]))
            ),
        ),
        st.tuples(st.sampled_from(["cycle", "decide", "bind", "fail", "wait", "interrupt"])),
    ),
    max_size=12,
)


@given(
    preset=st.sampled_from(list(PRESETS)),
    preempts=st.booleans(),
    room=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    steps=steps,
    way=st.sampled_from(Way),
)
def test_pod_is_bound_only_where_it_may_run_by_then(
    preset: str, preempts: bool, room: list[int], steps: list[Any], way: Way
) -> None:
    make: Any = PRESETS[preset]
    story = Watched(partial(make, preemption=Preemption()) if preempts else make, way, True)
    for number, cpu in enumerate(room):
        labels = {"rack": "ab"[number % 2], "zone": "z"} if number < 3 else {}
        node = make_node(f"n{number}", cpu=cpu, labels=labels, allocatable={"pods": 5})
        story.tell(NodeAdded(node))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    story.add(evolve(make_pod("running", cpu=1), node_name="n0", labels={"app": "web"}))
    story.add(*(evolve(make_pod(name, cpu=1, priority=1), pod_group="g") for name in "stu"))
    story.add(make_pod("alone", cpu=1))
    for kind, *given_step in steps:
        _take(story, kind, given_step)
    story.run(until=story.now + 2_000)
    story.finish_binds()
    story.run(until=story.now + 2_000)


def _take(story: Watched, kind: str, given_step: list[Any]) -> None:
    match kind:
        case "pod":
            name, (attribute, value) = given_step
            pod = story.cluster.pod(story.uid(name))
            if pod is not None and pod.node_name is None:
                story.tell(PodUpdated(evolve(pod, **{attribute: value})))
        case "group":
            _name, (attribute, value) = given_step
            group = story.cluster.pod_group("default/g")
            assert group is not None
            if attribute == "roles":  # their sum is at most the minimum
                group = evolve(group, min_available=3)
            elif attribute == "min_available":
                group = evolve(group, roles={})
            story.tell(PodGroupUpdated(evolve(group, **{attribute: value})))
        case "cycle":
            story.cycle()
        case "decide":
            story.decide()
        case "bind":
            story.finish_binds()
        case "fail" if story.binds:
            bind = story.binds[0]
            story.fail_bind(bind.uid.partition("/")[2])
        case "wait":
            story.run(until=story.now + 4)
        case "interrupt":
            if story.way is Way.REBUILT:
                story.finish_binds()  # the scheduler that is gone may have been heard
            story.interrupt()
        case _:
            pass
