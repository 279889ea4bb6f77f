"""Check that ``unreserve`` and ``pod_ended`` undo ``reserve``.

Rules:
  R1  the plugin's state is not read; it shows in the answers to the pods that reserve next;
  R2  a pod that ends was bound: it has a node, and ``pre_bind`` and ``post_bind`` were called;
  R3  a refusal for good is right: ``pod_ended`` has to tell only of what ``reserve`` accepts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from attrs import evolve, field, frozen

from gangsched.model import Pod, PodUID
from gangsched.outcomes import EvictGroup, RejectGroup, Unschedulable
from gangsched.testing._asked import DECIDES, NOW, Asked, kinds
from gangsched.testing._views import FakeGroup, FakeNode, cycle

__all__ = ["Symmetry"]

_CAUSES: Final = (
    "timeout",
    "deleted",
    "changed",
    "rejected",
    "refused",
    "bind_failed",
    "node_gone",
)


@frozen
class Symmetry:
    """A plugin with enough pods to exhaust what is scarce on each node.

    Attributes:
        asked: The plugin.
        pods: Pods; each is tried three times, as three pods.
        views: Nodes.
        group: The group of all of them.
    """

    asked: Asked
    pods: Sequence[Pod]
    views: Sequence[FakeNode]
    group: FakeGroup
    _rounds: list[int] = field(factory=lambda: [0], init=False)

    def check(self) -> None:
        """Check the plugin.

        Raises:
            AssertionError: ``unreserve`` or ``pod_ended`` does not undo ``reserve``, or
                ``pod_ended`` would have to and is missing, or ``unreserve`` is not idempotent.
        """
        if self.asked.has("unreserve"):
            self._is_undone()
        if self.asked.has("reserve") or self.asked.has("pod_ended"):
            self._is_over_at_the_end()

    def _is_undone(self) -> None:
        """Compare the answers of ``reserve`` before and after ``unreserve``."""
        for view in self.views:
            first = self._round("refused", view)
            for pod, cause in product(self.pods, _CAUSES):
                self._unreserve(pod, view, cause)
            for again in (self._round(cause, view) for cause in (*_CAUSES, "rejected")):
                details = (
                    f"on {view.node.name} reserve returned {first},"
                    f" and {again} after every reservation was undone"
                )
                same = again == first
                self.asked.expect("unreserve", same, f"does not undo reserve: {details}")
            once, twice = self._after(1, view), self._after(2, view)
            details = (
                f"on {view.node.name} reserve then returned {once} after one call"
                f" and {twice} after two"
            )
            problem = f"calling it twice differs from calling it once: {details}"
            self.asked.expect("unreserve", once == twice, problem)

    def _is_over_at_the_end(self) -> None:
        """Compare the answers of ``reserve`` before and after the pods have ended."""
        for view in self.views:
            pods = self._many("life-1")
            first, has_said = self._lives(pods, view)
            refused = [
                pod
                for pod, outcome in zip(pods, first, strict=True)
                if isinstance(outcome, Unschedulable)
            ]
            retried, _said = self._lives(refused, view)
            second, _said = self._lives(self._many("life-2"), view)
            is_missing = not self.asked.has("pod_ended")
            details = (
                f"on {view.node.name} reserve returned {kinds(first)},"
                f" and {kinds(second)} after every pod had ended"
            )
            problem = f"{'is missing' if is_missing else 'does not undo reserve'}: {details}"
            self.asked.expect("pod_ended", kinds(first) == kinds(second), problem)
            helped = any(not isinstance(outcome, Unschedulable) for outcome in retried)
            details = "a pod that reserve had refused is accepted after the others have ended"
            problem = f"returned False for all of them on {view.node.name}, and {details}"
            self.asked.expect("pod_ended", has_said or is_missing or not helped, problem)

    def _lives(self, pods: Sequence[Pod], view: FakeNode) -> tuple[list[Any], bool]:
        """Reserve for pods, bind those that are accepted, and end them.

        Returns:
            The answers of ``reserve``, and whether ``pod_ended`` returned True for any pod.
        """
        outcomes = [self._reserve(pod, view) for pod in pods]
        bound = [
            evolve(pod, node_name=view.node.name)
            for pod, outcome in zip(pods, outcomes, strict=True)
            if not isinstance(outcome, Unschedulable)
        ]
        for pod, point in product(bound, ("pre_bind", "post_bind")):
            if self.asked.has(point):
                args = (pod, view.node.name)
                given = args if point == "post_bind" else (self._cycle(), *args)
                self.asked.ask(point, *given, now=NOW)
        if not self.asked.has("pod_ended"):
            return outcomes, False
        ends = [
            self.asked.ask("pod_ended", pod, view.node.name, now=NOW + n)
            for n, pod in enumerate(bound)
        ]
        for end in ends:
            self.asked.expect("pod_ended", isinstance(end, bool), f"returned {end!r}, not a bool")
        return outcomes, True in ends

    def _round(self, cause: str, view: FakeNode) -> str:
        """Reserve for new pods and unreserve each twice; return the answers of ``reserve``."""
        self._rounds[0] += 1
        pods = self._many(f"{self._rounds[0]}")
        outcomes = [self._reserve(pod, view) for pod in pods]
        for pod in (*reversed(pods), *pods):
            self._unreserve(pod, view, cause)
        return kinds(outcomes)

    def _after(self, times: int, view: FakeNode) -> str:
        """Return the answers of ``reserve`` to two pods after one of several has unreserved."""
        one, *others = self._many(f"after-{times}")
        late = [evolve(one, uid=PodUID(f"{one.uid}-{n}")) for n in "xy"]
        for pod in (one, *others):
            self._reserve(pod, view)
        for _ in range(times):
            self._unreserve(one, view, "rejected")
        outcomes = [self._reserve(pod, view) for pod in late]
        for pod in (*late, *others):
            self._unreserve(pod, view, "rejected")
        return kinds(outcomes)

    def _many(self, name: str) -> list[Pod]:
        return [evolve(p, uid=PodUID(f"{p.uid}-{name}-{n}")) for n in range(3) for p in self.pods]

    def _reserve(self, pod: Pod, view: FakeNode) -> Any:
        if not self.asked.has("reserve"):
            return None
        answer = self.asked.ask("reserve", self._cycle(), pod, view.node.name, now=NOW)
        self.asked.is_a("reserve", answer, DECIDES, pod, view)
        return answer

    def _unreserve(self, pod: Pod, view: FakeNode, cause: str) -> None:
        state, name = self._cycle(), view.node.name
        answer = self.asked.ask("unreserve", state, pod, name, cause=cause, now=NOW)
        self.asked.is_a("unreserve", answer, (RejectGroup, EvictGroup, type(None)), pod, view)

    def _cycle(self) -> Any:
        return cycle(self.group, *self.views)
