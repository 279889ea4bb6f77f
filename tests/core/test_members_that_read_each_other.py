"""Gangs of which some members spread, or go beside others: placed exactly if some order does it.

The oracle of ``support.siblings`` tries every sequence of members and nodes, on plain dicts.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched import (
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Profile,
    SchedulingUnit,
    presets,
)
from gangsched.core.scheduler import Scheduler
from gangsched.protocols import NodeView
from gangsched.testing import make_node, make_pod
from support.siblings import (
    ZONE,
    Beside,
    CountedPerZone,
    OnePerNode,
    OnePerZone,
    Rule,
    can_place,
    ruled,
)
from support.story import Story

RULES: tuple[type[Rule], ...] = (OnePerNode, OnePerZone, CountedPerZone, Beside)
EACH_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def story_with(*rules: Rule, **options: Any) -> Story:
    """Return a story that the core decides with some more plugins."""
    profile = Profile(*presets.kube_default_profile().plugins, *rules)
    make: Any = partial(Scheduler, profile=profile, unit=SchedulingUnit.GROUP, **options)
    return Story(make)


def zoned(name: str, zone: str, cpu: int = 8) -> Node:
    return make_node(name, cpu=cpu, labels={ZONE: zone, "kubernetes.io/hostname": name})


cases = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.tuples(st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=3
        ),
        "running": st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), max_size=2
        ),
        "pending": st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None])), min_size=1, max_size=4
        ),
        "spare": st.integers(0, 2),
    }
)


@EACH_RULE
@settings(max_examples=100)
@given(drawn=cases)
def test_gang_starts_exactly_if_some_order_places_it(rule: type[Rule], drawn: Any) -> None:
    made = rule()
    story = story_with(made)
    nodes = [zoned(f"n{n}", zone, cpu) for n, (cpu, zone) in enumerate(drawn["nodes"])]
    story.tell(*map(NodeAdded, nodes))
    old = [
        evolve(
            ruled(make_pod(f"old-{n}", cpu=1), label),
            node_name=NodeName(nodes[where % len(nodes)].name),
        )
        for n, (where, label) in enumerate(drawn["running"])
    ]
    story.add(*old)
    least = max(len(drawn["pending"]) - drawn["spare"], 1)
    new = [
        ruled(make_pod(f"w-{n}", group="g", min_available=least, cpu=cpu), label)
        for n, (cpu, label) in enumerate(drawn["pending"])
    ]
    running = {pod.name: str(pod.node_name) for pod in old}
    expected = can_place(made, nodes, running, [*old, *new], least)
    story.add(*new)
    story.decide()
    assert (len(story.bound.keys() & {pod.name for pod in new}) >= least) is expected


def test_plugin_that_counts_is_told_of_members_that_are_taken_back() -> None:
    """The server first takes the only node of zone a, and a worker then counts in zone b."""
    story = story_with(CountedPerZone())
    seats = (("n0", "a", 2), ("n1", "b", 2), ("n2", "b", 1))
    story.tell(*(NodeAdded(zoned(*seat)) for seat in seats))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    workers = [ruled(make_pod(f"w-{n}", group="g", cpu=1)) for n in range(2)]
    story.add(make_pod("server", group="g", cpu=2), *workers)
    story.decide()
    assert story.bound["server"] == "n1"
    assert {story.bound["w-0"], story.bound["w-1"]} == {"n0", "n2"}


def test_search_ends_with_its_budget() -> None:
    story = story_with(OnePerZone(), search_budget=20)
    story.tell(*(NodeAdded(zoned(f"n{n}", f"z{n}")) for n in range(6)))
    story.add(*(ruled(make_pod(f"g-{n}", group="g", min_available=7, cpu=1)) for n in range(7)))
    story.decide()
    assert story.bound == {}


def test_label_of_a_running_pod_wakes_a_pod_that_has_to_be_beside_it() -> None:
    story = story_with(Beside())
    story.tell(NodeAdded(zoned("n0", "a")))
    story.add(make_pod("first", cpu=1))
    story.decide()
    story.add(ruled(make_pod("late", cpu=1), "b"))
    story.decide()
    assert story.bound == {"first": "n0"}
    story.tell(PodAdded(ruled(story.pod("first"), "a")))
    story.run(until=60)
    assert story.bound == {"first": "n0", "late": "n0"}


class AlikeNodes(Beside):
    def node_signature(self, node: NodeView) -> Hashable:
        return "alike"


@pytest.mark.parametrize(("budget", "starts"), [(10, False), (100, True)])
def test_nodes_that_a_search_lists_count_against_its_budget(budget: int, starts: bool) -> None:
    story = story_with(AlikeNodes(), search_budget=budget)
    story.tell(*(NodeAdded(zoned(f"n{n}", "a")) for n in range(500)))
    pods = [make_pod(name, group="g", min_available=2, cpu=1) for name in "ba"]
    story.add(*(ruled(pod, pod.name) for pod in pods))
    story.decide()
    assert bool(story.bound) is starts
