"""Check that ``unreserve`` undoes ``reserve``.

Rules:
  R1  the plugin's state is not read; it shows in the answers to the pods that reserve next.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from attrs import evolve, field, frozen

from gangsched.model import Pod, PodUID
from gangsched.outcomes import EvictGroup, RejectGroup
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
            AssertionError: ``unreserve`` does not undo ``reserve``, or is not idempotent.
        """
        if not self.asked.has("unreserve"):
            return
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
