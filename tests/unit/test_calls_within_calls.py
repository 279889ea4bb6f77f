"""A call of a scheduler from inside one of its own calls is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    GangschedError,
    InMemoryCluster,
    NodeAdded,
    PluginError,
    PodAdded,
    PodDeleted,
    Profile,
    ReentrantCallError,
    Scheduler,
    Success,
    group_key,
    presets,
)
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_node, make_pod

CALLS: dict[str, Callable[[Scheduler], object]] = {
    "handle": lambda s: s.handle(PodDeleted(make_pod("p").uid), now=0.0),
    "advance": lambda s: s.advance(now=0.0),
    "schedule_one": lambda s: s.schedule_one(now=0.0),
    "rebuild": lambda s: s.rebuild(now=0.0),
    "snapshot": lambda s: s.snapshot(),
    "restore": lambda s: s.restore({}),
    "why": lambda s: s.why(make_pod("p")),
    "what_if": lambda s: s.what_if(),
    "smallest_change": lambda s: s.smallest_change(group_key("default", "g"), make_node("n")),
}


class CallsBack:
    """A plugin that calls its scheduler in PreFilter."""

    name = "CallsBack"

    def __init__(self) -> None:
        self.call: Callable[[], object] = lambda: None

    def pre_filter(self, _state: Any, _pod: Any, *, now: float) -> Success:
        self.call()
        return SUCCESS


@pytest.mark.parametrize("name", CALLS)
def test_call_from_inside_a_plugin_is_refused_by_name(name: str) -> None:
    plugin = CallsBack()
    cluster = InMemoryCluster()
    profile = Profile(PrioritySort(), plugin, NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    for event in (NodeAdded(make_node("n", cpu=1)), PodAdded(make_pod("p", cpu=1))):
        scheduler.handle(cluster.apply(event), now=0.0)
    before = scheduler.snapshot()
    plugin.call = lambda: CALLS[name](scheduler)
    with pytest.raises(PluginError, match="ReentrantCallError") as caught:
        scheduler.schedule_one(now=0.0)
    assert isinstance(caught.value.__cause__, ReentrantCallError)
    assert (caught.value.__cause__.inner, caught.value.__cause__.outer) == (name, "schedule_one")
    scheduler._check()
    assert {k: v for k, v in scheduler.snapshot().items() if k != "step"} == {
        k: v for k, v in before.items() if k != "step"
    }
    plugin.call = lambda: None
    assert scheduler.schedule_one(now=0.0)


def test_call_from_inside_a_cluster_state_is_refused() -> None:
    class Calls(InMemoryCluster):
        __slots__ = ("scheduler",)
        scheduler: Scheduler

        def pod(self, uid: Any) -> Any:
            scheduler: Scheduler | None = getattr(self, "scheduler", None)
            if scheduler is not None:
                scheduler.advance(now=0.0)
            return super().pod(uid)

    cluster = Calls()
    scheduler = presets.gang(cluster)
    scheduler.advance(now=0.0)
    cluster.scheduler = scheduler
    with pytest.raises(ReentrantCallError, match="advance was called from inside handle"):
        scheduler.handle(PodDeleted(make_pod("p").uid), now=0.0)
    del cluster.scheduler
    scheduler._check()
    assert scheduler.handle(PodDeleted(make_pod("p").uid), now=0.0) == ()


def test_refused_call_is_an_error_of_the_library() -> None:
    error = ReentrantCallError("why", "handle")
    assert isinstance(error, GangschedError)
    assert isinstance(error, RuntimeError)
    assert str(error) == "why was called from inside handle of the same scheduler"
