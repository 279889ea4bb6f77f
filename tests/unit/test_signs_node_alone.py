"""A plugin that signs the node alone is not asked again after the node has taken a pod."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import pytest
from attrs import field, frozen

import gangsched.plugins
from gangsched import ClusterState, Coscheduling, Pod, Profile, Scheduler, SchedulingUnit
from gangsched.errors import PluginError, ProfileError
from gangsched.outcomes import SUCCESS, Outcome
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    PrioritySort,
    TaintToleration,
)
from gangsched.profile.signing import signers_of_capacity
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import check_plugin, make_pod
from support.driver import Driver
from support.gangs import gang_driver, members, node, place

OF_CAPACITY: Final = {"NodeResources", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def ours() -> list[Any]:
    kinds = [getattr(gangsched.plugins, name) for name in gangsched.plugins.__all__]
    return [kind() for kind in kinds if hasattr(kind, "node_signature")]


@frozen
class Audience:
    """Signs nodes, and counts how often it is asked."""

    asked: list[int] = field(factory=list[int])
    signs_node_alone: Any = True
    signature: Any = None

    @property
    def name(self) -> str:
        return "Audience"

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def node_signature(self, node: NodeView) -> Hashable:
        self.asked.append(node.pod_count)
        return self.signature(node) if callable(self.signature) else None

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


def driver_with(plugin: object) -> Driver:
    def make(cluster: ClusterState) -> Scheduler:
        profile = Profile(plugin, Coscheduling(), NodeAffinity(), NodeResources(), DefaultBinder())
        return Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)

    return gang_driver(node("a", 4), node("b", 4), make=make)


def name_of_node(view: NodeView) -> str:
    return view.node.name


def keys(driver: Driver) -> list[tuple[Hashable, ...] | None]:
    return [each.key for each in driver.scheduler._state.nodes.classes.occupied()]


@pytest.mark.parametrize("plugin", ours(), ids=lambda plugin: type(plugin).__name__)
def test_plugin_signs_the_node_alone_unless_it_reads_capacity(plugin: Any) -> None:
    asked = [type(each).__name__ for _n, each in signers_of_capacity([plugin])]
    assert asked == [name for name in (type(plugin).__name__,) if name in OF_CAPACITY]
    check_plugin(plugin)


def test_plugin_that_signs_the_node_alone_is_not_asked_after_a_pod() -> None:
    audience = Audience()
    driver = driver_with(audience)
    driver.add(*members("g", 3, cpu=1))
    assert driver.scheduler.schedule_one(now=driver.now)
    assert set(audience.asked) == {0}


def test_plugin_that_declares_nothing_is_asked_after_each_pod() -> None:
    audience = Audience(signs_node_alone=False)
    driver = driver_with(audience)
    driver.add(*members("g", 3, cpu=1))
    assert driver.scheduler.schedule_one(now=driver.now)
    assert set(audience.asked) == {0, 1, 2}


@pytest.mark.parametrize("declared", [True, False])
def test_node_has_the_signature_of_all_plugins_after_its_pods(declared: bool) -> None:
    audience = Audience(signs_node_alone=declared, signature=name_of_node)
    driver = driver_with(audience)
    place(driver, *members("g", 5, cpu=1))
    plugins = driver.scheduler._state.settings.profile.node_signers
    views = driver.scheduler._state.nodes.by_index.values()
    fresh = [(*(plugin.node_signature(view) for plugin in plugins), ()) for view in views]
    # a node that is alone of its kind and capacity is not signed again by those that read pods
    read = 2 if declared else len(plugins)
    assert sorted(repr((key or ())[:read]) for key in keys(driver)) == sorted(
        repr(key[:read]) for key in fresh
    )
    driver.scheduler._check()


class OnlyTheSignature(TaintToleration):
    def node_signature(self, node: NodeView) -> Hashable:
        return node.pod_count


class Both(TaintToleration):
    @property
    def signs_node_alone(self) -> bool:
        return False

    def node_signature(self, node: NodeView) -> Hashable:
        return node.pod_count


@pytest.mark.parametrize("kind", [OnlyTheSignature, Both])
def test_subclass_with_another_signature_of_nodes_is_asked(kind: type[Any]) -> None:
    plugin = kind()
    assert signers_of_capacity([NodeAffinity(), plugin]) == ((1, plugin),)


@pytest.mark.parametrize("given", [None, 1, "yes", ()])
def test_declaration_that_is_no_bool_is_refused_by_name_and_value(given: Any) -> None:
    with pytest.raises(ProfileError, match="signs_node_alone: 'Audience' has ") as caught:
        Profile(Audience(signs_node_alone=given), PrioritySort(), NodeResources(), DefaultBinder())
    assert repr(given) in str(caught.value)


def test_error_of_a_signature_after_a_pod_is_reported_with_the_plugin() -> None:
    def fail_if_used(view: NodeView) -> Hashable:
        return 1 // (view.pod_count == 0)

    driver = driver_with(Audience(signs_node_alone=False, signature=fail_if_used))
    driver.add(make_pod("p", cpu=1))
    with pytest.raises(PluginError, match=r"Audience.*node_signature.*ZeroDivisionError"):
        driver.drain()
    assert None in keys(driver)


def test_check_plugin_finds_a_signature_that_pods_change() -> None:
    class Careless(TaintToleration):
        @property
        def signs_node_alone(self) -> bool:
            return True

        def node_signature(self, node: NodeView) -> Hashable:
            return (node.node.taints, node.pod_count)

    with pytest.raises(AssertionError, match=r"node_signature: is .* with less capacity"):
        check_plugin(Careless())
