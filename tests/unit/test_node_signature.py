"""What plugins read of nodes, and what becomes of plugins with a wrong signature."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    ClusterState,
    Coscheduling,
    PodGroupAdded,
    Profile,
    Scheduler,
    SchedulingUnit,
    Topology,
)
from gangsched.errors import PluginError
from gangsched.plugins import DefaultBinder, NodeAffinity, NodeResources
from gangsched.protocols import NodeView
from support.driver import Driver
from support.faulty_plugin import FaultyPlugin
from support.gangs import decide, gang_driver, members, node, place, specify

OOPS = ZeroDivisionError("oops")
SIGNING = ("filter", "pod_signature", "node_signature")


def faulty_driver(faulty: FaultyPlugin, *, unit: SchedulingUnit = SchedulingUnit.GROUP) -> Driver:
    """Return a driver with an odd filter beside the ones that there are."""

    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(faulty, Coscheduling(), NodeAffinity(), NodeResources(), DefaultBinder())
        return Scheduler(cluster, profile, unit=unit)

    return gang_driver(make=make)


def class_count(driver: Driver) -> int:
    return len(list(driver.scheduler._state.nodes.classes.occupied()))


def sound(*points: str) -> FaultyPlugin:
    faulty = FaultyPlugin(*points)
    faulty.answers["node_signature"] = lambda _view: None
    return faulty


def test_equal_nodes_are_one_class_when_every_plugin_has_signatures() -> None:
    driver = faulty_driver(sound(*SIGNING))
    driver.tell(*(node(f"n{n}", 2) for n in range(4)))
    assert class_count(driver) == 1


def test_nodes_stand_alone_when_one_plugin_has_no_signature() -> None:
    driver = faulty_driver(FaultyPlugin("filter", "pod_signature"))
    driver.tell(*(node(f"n{n}", 2) for n in range(4)))
    assert class_count(driver) == 4
    assert len(place(driver, *members("g", 8, cpu=1))) == 8


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (OOPS, "raised ZeroDivisionError('oops')"),
        ([], "returned [], expected a hashable value"),
        (([],), "returned ([],), expected a hashable value"),
    ],
)
def test_node_without_signature_of_a_plugin_is_reported_and_stands_alone(
    answer: object, says: str
) -> None:
    faulty = sound(*SIGNING)
    driver = faulty_driver(faulty)
    driver.tell(node("a", 2))

    def answer_for(view: NodeView) -> object:
        assert view.node.name == "b"
        if isinstance(answer, Exception):
            raise answer
        return answer

    faulty.answers["node_signature"] = answer_for
    with pytest.raises(PluginError) as caught:
        driver.tell(node("b", 2))
    error = caught.value
    assert str(error) == f"plugin 'FaultyPlugin' at node_signature for b: {says}"
    assert error.__cause__ is not None
    faulty.answers["node_signature"] = lambda _view: None
    driver.scheduler._check()
    assert class_count(driver) == 2
    assert len(place(driver, *members("g", 4, cpu=1))) == 4


def test_plugin_that_signs_a_node_when_it_is_asked_again_is_not_blamed() -> None:
    """No plugin is named, and the node is a class of its own until it changes."""
    faulty = sound(*SIGNING)
    driver = faulty_driver(faulty)
    driver.tell(node("a", 2))
    answers = iter([OOPS])

    def fail_once(_view: NodeView) -> None:
        for error in answers:
            raise error

    faulty.answers["node_signature"] = fail_once
    driver.tell(node("b", 2))
    assert class_count(driver) == 2
    driver.tell(node("b", 2, zone="z"))
    assert class_count(driver) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (OOPS, "raised"),
        (5, "returned 5"),
        (["zone", 7], "returned .*7"),
        ("zone", "returned 'zone'"),
    ],
)
def test_plugin_that_cannot_say_which_labels_it_reads_is_named(answer: Any, says: str) -> None:
    """The pod is not taken in: what it needs to know of nodes is not known."""
    faulty = sound(*SIGNING, "labels_read")
    faulty.answers["labels_read"] = answer
    driver = faulty_driver(faulty)
    with pytest.raises(PluginError, match=says) as caught:
        driver.add(*members("g", 1, cpu=1))
    assert (caught.value.plugin, caught.value.point) == ("FaultyPlugin", "labels_read")
    assert caught.value.subject == "default/g-0"
    driver.scheduler._check()


@pytest.mark.parametrize(("answer", "says"), [(OOPS, "raised"), (5, "returned 5")])
def test_plugin_whose_fitted_raises_is_named_by_the_search(answer: Any, says: str) -> None:
    faulty = sound(*SIGNING, "fitted")
    faulty.answers["fitted"] = answer
    driver = faulty_driver(faulty)
    driver.tell(node("n", 1))
    driver.add(*members("g", 2, cpu=1))
    with pytest.raises(PluginError, match=says) as caught:
        decide(driver)
    assert caught.value.point == "fitted"
    (info,) = driver.scheduler.registry
    assert (info.attempts, info.scheduled) == (0, 0)
    driver.scheduler._check()


# Labels ---------------------------------------------------------------------------------------


def hosts(count: int = 4) -> Driver:
    driver = faulty_driver(sound(*SIGNING))
    driver.tell(*(node(f"n{n}", 2, host=f"n{n}", zone="ab"[n % 2]) for n in range(count)))
    return driver


def test_hosts_that_differ_by_their_names_alone_are_one_class() -> None:
    assert class_count(hosts()) == 1


def test_hosts_differ_once_a_pod_selects_one_by_its_name() -> None:
    driver = hosts()
    placed = place(driver, *members("g", 1, cpu=1, selector={"host": "n2"}))
    assert placed == {"g-0": "n2"}
    assert class_count(driver) == 4


def test_label_splits_only_nodes_on_which_it_differs() -> None:
    driver = hosts()
    driver.add(*members("g", 1, 2, selector={"zone": "b"}))
    assert class_count(driver) == 2


def test_topology_label_of_gangs_splits_node_classes() -> None:
    driver = hosts()
    driver.tell(PodGroupAdded(specify("g", 2, Topology("zone"))))
    assert class_count(driver) == 2


def test_departed_pods_do_not_split_node_classes_for_ever() -> None:
    """A few labels without readers are retained; many are not."""
    driver = hosts()
    for number in range(12):
        (pod,) = members(f"g{number}", 1, 2, selector={f"label-{number}": "x"})
        driver.add(pod)
        driver.delete(pod.uid)
    assert len(driver.scheduler._state.pod_classes.labels.keys) <= 9


def test_gang_with_a_new_topology_key_splits_node_classes_by_it() -> None:
    driver = hosts()
    for label, classes in (("rack", 1), ("zone", 2), ("host", 4)):
        driver.tell(PodGroupAdded(specify("g", 2, Topology(label))))
        assert class_count(driver) == classes
        assert len(driver.scheduler._state.pod_classes.labels) == 1
    driver.tell(PodGroupAdded(specify("g", 2)))
    assert len(driver.scheduler._state.pod_classes.labels) == 0
