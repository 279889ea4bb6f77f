"""Whether a plugin's answer holds for every pod of a signature, whichever of them it was asked for.

The scheduler asks a plugin once for all pods with equal signatures. The pod that it shows may have
a node by then, so it may itself be among ``node.pods``, and the answer counts for its siblings too.

Rules:
  R1  a pod and a copy of it with another UID get the same answer on a node that holds the pod and
      some of its copies;
  R2  two pods with equal signatures get the same answer on a node that holds a copy of either. So
      what the plugin compares with the pods on a node is part of the signature;
  R3  only pods for which ``reads_pods`` is true are tried: others are shown no pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from attrs import evolve, frozen

from gangsched.model import Pod, PodUID
from gangsched.testing._asked import NOW, Asked, short
from gangsched.testing._siblings import MOST_ALIKE
from gangsched.testing._views import FakeGroup, FakeNode, cycle

__all__ = ["SignedAlike"]


@frozen
class SignedAlike:
    """A plugin with pods and nodes; each pod is put on each node, with copies of it."""

    asked: Asked
    pods: Sequence[Pod]
    views: Sequence[FakeNode]
    group: FakeGroup

    def check(self) -> None:
        """Check the rules.

        Raises:
            AssertionError: The plugin breaks one.
        """
        points = [point for point in ("filter", "score") if self.asked.has(point)]
        if not points or not self.asked.has("pod_signature"):
            return
        for pod in self.pods:
            twin = _copy(pod, 0)
            signatures = [self.asked.ask("pod_signature", each) for each in (pod, twin)]
            if signatures[0] == signatures[1] and self.asked.reads_pods(pod):
                for view in self.views:
                    self._holds_for_all(points, pod, twin, view)

        for one, other in combinations(self.pods, 2):
            signatures = [self.asked.ask("pod_signature", each) for each in (one, other)]
            if signatures[0] == signatures[1] and self.asked.reads_pods(one):
                self._is_whole(points, one, other)

    def _is_whole(self, points: Sequence[str], one: Pod, other: Pod) -> None:
        """Compare two pods with equal signatures on nodes that hold one of them."""
        for view, resident in product(self.views, (one, other)):
            there = evolve(_copy(resident, 0), node_name=view.node.name)
            shown = evolve(view, pods=(*view.pods, there))
            for point in points:
                answers = [self._on(point, each, shown) for each in (one, other)]
                where = f"on node {view.node.name} with a copy of {resident.uid}"
                details = f"{short([one])} has {answers[0]}, {short([other])} has {answers[1]}"
                hint = "sign all that is compared with node.pods"
                sentence = f"is equal, and {point} differs: {details}, {where}; {hint}"
                self.asked.expect("pod_signature", answers[0] == answers[1], sentence)

    def _holds_for_all(self, points: Sequence[str], pod: Pod, twin: Pod, view: FakeNode) -> None:
        for count in range(1, MOST_ALIKE + 1):
            alike = (pod, *(_copy(pod, number) for number in range(1, count)))
            there = tuple(evolve(each, node_name=view.node.name) for each in alike)
            shown = evolve(view, pods=(*view.pods, *there))
            for point in points:
                itself, other = (self._on(point, each, shown) for each in (pod, twin))
                where = f"on node {view.node.name} with {count} such, and {pod.uid} among them"
                details = f"{short([pod])} has {itself}, {short([twin])} has {other}, {where}"
                hint = "compare no UIDs with those of node.pods"
                sentence = f"is equal, and {point} differs: {details}; {hint}"
                self.asked.expect("pod_signature", itself == other, sentence)

    def _on(self, point: str, pod: Pod, view: FakeNode) -> Any:
        others = [each for each in self.views if each.node.name != view.node.name]
        state = cycle(self.group, *others, view)
        if self.asked.has("pre_filter"):
            self.asked.ask("pre_filter", state, pod, now=NOW)
        return self.asked.ask(point, state, pod, view)


def _copy(pod: Pod, number: int) -> Pod:
    name = f"{pod.name}-like-{number}"
    return evolve(pod, uid=PodUID(f"{pod.uid}-like-{number}"), name=name)
