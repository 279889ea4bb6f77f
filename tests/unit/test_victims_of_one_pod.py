"""A single pod that preempts: victims cost no more than by kube-scheduler's own choice.

``_choice`` is kube-scheduler's choice, written down plainly: on each node all pods of a lower
priority are taken, and given back in order of importance, those first that violate a budget; then
the nodes are ranked.

Source: ``SelectVictimsOnNode``, ``filterPodsWithPDBViolation`` and ``pickOneNodeForPreemption`` of
kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import frozen
from hypothesis import event, example, given
from hypothesis import strategies as st

from gangsched import (
    Evict,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    ObjectChanged,
    Pod,
    PodAdded,
    Preemption,
    presets,
)
from gangsched.cluster_objects import PodDisruptionBudget

_CPUS: Final = 4
_BASE: Final = 2**31
_HIGHEST: Final = 9


@frozen
class _Running:
    name: str
    node: str
    cpu: int
    priority: int
    started: int
    app: str = ""


def _victims(cpu: int, running: Sequence[_Running], allowed: Mapping[str, int]) -> set[str]:
    cluster = InMemoryCluster()
    scheduler = presets.pod_by_pod(cluster, preemption=Preemption())
    effects: list[Any] = []

    def tell(told: Any) -> None:
        effects.extend(scheduler.handle(cluster.apply(told), now=0.0))
        while (more := scheduler.schedule_one(now=0.0)) is not None:
            effects.extend(more)

    for node in sorted({each.node for each in running}):
        tell(NodeAdded(Node(name=NodeName(node), allocatable={"cpu": _CPUS})))
    for app, count in allowed.items():
        budget = PodDisruptionBudget(
            name=app, selector=LabelSelector({"app": app}), disruptions_allowed=count
        )
        tell(ObjectChanged(budget))
    for each in running:
        pod = Pod(
            name=each.name,
            node_name=each.node,
            requests={"cpu": each.cpu},
            priority=each.priority,
            labels={"app": each.app},
            created_at=float(each.started),
        )
        tell(PodAdded(pod))
    effects.clear()
    tell(PodAdded(Pod(name="high", priority=_HIGHEST, requests={"cpu": cpu})))
    scheduler._state._check()
    return {effect.uid.removeprefix("default/") for effect in effects if isinstance(effect, Evict)}


def _importance(pod: _Running) -> tuple[int, int]:
    return (-pod.priority, pod.started)


def _on_node(cpu: int, pods: Iterable[_Running], allowed: Mapping[str, int]) -> list[_Running]:
    left, violating, others = dict(allowed), list[_Running](), list[_Running]()
    for pod in sorted(pods, key=_importance):
        left[pod.app] = left.get(pod.app, len(pod.name) + 99) - 1
        (violating if left[pod.app] < 0 else others).append(pod)
    victims, free = list[_Running](), _CPUS
    for pod in (*violating, *others):
        if free - pod.cpu >= cpu:
            free -= pod.cpu
        else:
            victims.append(pod)
    return victims


def _cost(victims: Iterable[_Running], allowed: Mapping[str, int]) -> tuple[int, ...]:
    left, violations, given = dict(allowed), 0, list(victims)
    for pod in given:
        if pod.app in left:
            left[pod.app] -= 1
            violations += left[pod.app] < 0
    total = sum(pod.priority + _BASE for pod in given)
    highest = max(pod.priority for pod in given)
    first = min(pod.started for pod in given if pod.priority == highest)
    return violations, highest, total, len(given), -first


def _choice(cpu: int, running: Sequence[_Running], allowed: Mapping[str, int]) -> set[str]:
    nodes = sorted({each.node for each in running})
    found = [_on_node(cpu, [p for p in running if p.node == node], allowed) for node in nodes]
    return {pod.name for pod in min(found, key=lambda victims: _cost(victims, allowed))}


@st.composite
def _full_nodes(draw: st.DrawFn) -> tuple[_Running, ...]:
    running: list[_Running] = []
    for node in "abc"[: draw(st.integers(1, 3))]:
        free = _CPUS
        while free:
            cpu = min(draw(st.integers(1, 3)), free)
            free -= cpu
            priority, app = draw(st.integers(1, 3)), draw(st.sampled_from(("", "web", "db")))
            number = len(running)
            running.append(_Running(f"r{number}", node, cpu, priority, number + 1, app))
    return tuple(running)


_BUDGETS: Final = st.dictionaries(st.sampled_from(("web", "db")), st.integers(0, 2))


@given(cpu=st.integers(1, _CPUS), running=_full_nodes(), allowed=_BUDGETS)
@example(
    cpu=4,
    running=(_Running("r0", "a", 4, 2, 1), _Running("r1", "b", 4, 1, 2)),
    allowed={},
)
def test_victims_cost_no_more_than_by_kube_scheduler(
    cpu: int, running: tuple[_Running, ...], allowed: dict[str, int]
) -> None:
    by_name = {each.name: each for each in running}
    found, expected = _victims(cpu, running, allowed), _choice(cpu, running, allowed)
    own = _cost((by_name[name] for name in sorted(found)), allowed)
    theirs = _cost((by_name[name] for name in sorted(expected)), allowed)
    assert own <= theirs, f"{found} costs {own}, and {expected} only {theirs}"
    event("the same victims" if found == expected else "another choice, which costs less")


def test_of_victims_with_equal_highest_priority_the_smaller_sum_is_evicted() -> None:
    running = (
        _Running("a2", "a", 2, 3, 3),
        _Running("a1", "a", 2, 2, 4),
        _Running("b2", "b", 2, 3, 1),
        _Running("b1", "b", 2, 1, 2),
    )
    assert _victims(4, running, {}) == {"b1", "b2"}
    swapped = tuple(
        _Running(p.name, "ab"[p.node == "a"], p.cpu, p.priority, p.started) for p in running
    )
    assert _victims(4, swapped, {}) == {"b1", "b2"}


def test_of_victims_with_equal_costs_those_that_came_last_are_evicted() -> None:
    old, new = _Running("old", "a", 4, 1, 1), _Running("new", "b", 4, 1, 2)
    assert _victims(4, (old, new), {}) == {"new"}


def test_budget_is_used_up_by_the_most_important_pod_first() -> None:
    # all three violate nothing alone; together the two that are less important do, so they are
    # spared first, and the most important one is evicted
    running = tuple(
        _Running(f"r{n}", "a", size, 1, n + 1, "web") for n, size in enumerate((2, 1, 1))
    )
    assert _victims(2, running, {"web": 1}) == _choice(2, running, {"web": 1}) == {"r0"}
