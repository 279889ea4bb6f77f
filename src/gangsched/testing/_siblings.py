"""Whether a plugin depends on the pods on nodes only where it says so, and keeps its counts.

Rules:
  R1  for a pod for which ``reads_pods`` is False or missing, the answers are the same whichever
      pods are on the nodes, also where ``pre_filter`` counts them for ``filter``;
  R2  a bound for all nodes is at least 1 wherever ``filter`` accepts a node;
  R3  a count that is kept by ``add_pod`` and ``remove_pod`` gives the answers that ``pre_filter``
      gives on the same nodes;
  R4  up to eight other pods are on the nodes: a quota has no effect before it is used up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product
from typing import Any, Final

from attrs import evolve, frozen

from gangsched.model import FrozenMap, Node, Pod, PodUID
from gangsched.outcomes import Unschedulable
from gangsched.testing._asked import NOW, Asked, short
from gangsched.testing._views import FakeGroup, FakeNode, cycle

__all__ = ["MOST_ALIKE", "Siblings"]

MOST_ALIKE: Final = 8
"""The largest number of other pods on the nodes: a rule that counts to more is not caught."""


@frozen
class _Unshown:
    """A node as plugins are given it for a pod for which they do not read pods."""

    node: Node
    free: dict[str, int]
    pod_count: int
    defaulted: FrozenMap[int]

    @property
    def pods(self) -> Collection[Pod]:
        raise LookupError("node.pods is shown only for pods of which reads_pods(pod) is true")


@frozen
class Siblings:
    """A plugin with pods and nodes; each pod is tried as another pod on each node."""

    asked: Asked
    pods: Sequence[Pod]
    views: Sequence[FakeNode]
    group: FakeGroup

    def check(self) -> None:
        """Check the rules.

        Raises:
            AssertionError: The plugin breaks one.
        """
        self._is_signed()
        for pod in self.pods if self._points() else ():
            if self.asked.reads_pods(pod):
                self._keeps_counts(pod)
                self._is_bounded(pod)
            else:
                self._is_independent(pod)

    def _points(self) -> list[str]:
        return [point for point in ("filter", "score") if self.asked.has(point)]

    def _is_signed(self) -> None:
        """Check that ``reads_pods`` returns the same for pods with equal signatures."""
        if not self.asked.has("reads_pods", "pod_signature"):
            return
        for one, other in combinations(self.pods, 2):
            signatures = [self.asked.ask("pod_signature", pod) for pod in (one, other)]
            if signatures[0] == signatures[1]:
                said = [self.asked.reads_pods(pod) for pod in (one, other)]
                sentence = f"is {said[0]} for {short([one])} and {said[1]} for {short([other])}"
                details = f"{sentence}, which have equal pod_signature"
                self.asked.expect("reads_pods", said[0] == said[1], details)

    def _is_independent(self, pod: Pod) -> None:
        for view, (where, other), count in product(self.views, self._others(), (1, MOST_ALIKE)):
            shown = self._shown(where, other, count)
            for point in self._points():
                before = self._on(point, pod, view, self.views)
                after = self._on(point, pod, view, shown)
                details = f"answers {before!r} for {short((pod, view))}, and {after!r} with"
                like = "" if count == 1 else f"{count} copies of "
                on = f"{like}pod {other.uid} on node {where.node.name}"
                why = (
                    f"reads_pods {'returned False' * self.asked.has('reads_pods') or 'is missing'}"
                )
                self.asked.expect(point, before == after, f"{details} {on}: {why}")

    def _on(self, point: str, pod: Pod, view: FakeNode, views: Sequence[FakeNode]) -> Any:
        given = _Unshown(view.node, view.free, view.pod_count, view.defaulted)
        state = cycle(self.group, *views)
        # as in a scheduling cycle, what it writes is what filter and score read
        if self.asked.has("pre_filter"):
            self.asked.ask("pre_filter", state, pod, now=NOW)
        return self.asked.ask(point, state, pod, given)

    def _is_bounded(self, pod: Pod) -> None:
        """Compare the bound with ``filter``, without and with other pods on a node."""
        if not self.asked.has("cluster_headroom", "filter"):
            return
        shown = [list(self.views)]
        shown += [
            self._shown(where, other, count)
            for (where, other), count in product(self._others(), range(1, MOST_ALIKE + 1))
        ]
        for views in shown:
            state = cycle(self.group, *views)
            if self.asked.has("pre_filter"):
                self.asked.ask("pre_filter", state, pod, now=NOW)
            found = self.asked.twice("cluster_headroom", state, pod)
            is_count = found is None or (type(found) is int and found >= 0)
            problem = f"returned {found!r}, not an int >= 0 or None, for {short([pod])}"
            self.asked.expect("cluster_headroom", is_count, problem)
            for view in views if found == 0 else ():
                fits = not isinstance(self.asked.ask("filter", state, pod, view), Unschedulable)
                problem = f"is 0, and filter lets {short((pod, view))}"
                self.asked.expect("cluster_headroom", not fits, problem)

    def _keeps_counts(self, pod: Pod) -> None:
        """Add copies of a pod to the nodes in turn and remove them, comparing at each step."""
        if not self.asked.has("pre_filter", "add_pod", "remove_pod", "filter"):
            return
        # one node of each name, as in a cluster
        views = list({view.node.name: view for view in self.views}.values())
        for where, other in self._others():
            if not any(where is view for view in views):
                continue
            nodes = [evolve(view) for view in views]
            first = views.index(where)
            targets = [nodes[(first + number) % len(nodes)] for number in range(MOST_ALIKE)]
            kept = cycle(self.group, *nodes)
            self.asked.ask("pre_filter", kept, pod, now=NOW)
            answers = [self._answers(kept, pod, nodes)]
            for copy, target in zip(_copies(other, MOST_ALIKE), targets, strict=True):
                target.pods = (*target.pods, copy)
                self.asked.ask("add_pod", kept, pod, copy, target)
                answers.append(self._answers(kept, pod, nodes))
                self._agree(pod, copy, answers[-1], nodes)
            for target in reversed(targets):
                *rest, removed = target.pods
                target.pods = tuple(rest)
                self.asked.ask("remove_pod", kept, pod, removed, target)
                answers.pop()
                again = self._answers(kept, pod, nodes)
                details = f"{answers[-1]} at first, then {again}"
                problem = f"does not undo add_pod for {short([pod])}: {details}"
                self.asked.expect("remove_pod", again == answers[-1], problem)

    def _agree(self, pod: Pod, other: Pod, found: list[Any], nodes: Sequence[FakeNode]) -> None:
        fresh = cycle(self.group, *nodes)
        self.asked.ask("pre_filter", fresh, pod, now=NOW)
        counted = self._answers(fresh, pod, nodes)
        details = f"for {short([pod])} beside pod {other.uid}: filter returned {found}"
        problem = f"{details}; after a new pre_filter it returned {counted}"
        self.asked.expect("add_pod", found == counted, problem)

    def _answers(self, state: Any, pod: Pod, nodes: Sequence[FakeNode]) -> list[Any]:
        return [self.asked.ask("filter", state, pod, node) for node in nodes]

    def _others(self) -> Iterator[tuple[FakeNode, Pod]]:
        for view, pod in product(self.views, self.pods):
            yield view, evolve(pod, uid=PodUID(f"{pod.uid}-other"), name=f"{pod.name}-other")

    def _shown(self, where: FakeNode, other: Pod, count: int) -> list[FakeNode]:
        """Return the nodes, with copies of a pod on one of them."""
        crowded = evolve(where, pods=(*where.pods, *_copies(other, count)))
        return [crowded if view is where else view for view in self.views]


def _copies(pod: Pod, count: int) -> list[Pod]:
    return [evolve(pod, uid=PodUID(f"{pod.uid}-{n}"), name=f"{pod.name}-{n}") for n in range(count)]
