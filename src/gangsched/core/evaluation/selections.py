"""Which pods the constraints of other pods select: what tells pods with equal signatures apart.

A pod gets the answers of its class, unless a pod on a node, or a sibling, has a constraint about
its labels. So the class of a pod says which selectors of known pods are about it, too. A selector
is known from the arrival of the first pod that states it until the last of them is gone, wherever
they are. So a class changes with an event, never with a placement.

Invariant (``check``): the selectors are those that known pods state, each with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Final, final

from gangsched.constraints.matchers import PodMatcher
from gangsched.cycle_state.matcher_index import MatcherIndex
from gangsched.errors import InternalError
from gangsched.model import Pod, PodUID

__all__ = ["Selections"]

_MOST: Final = 100
"""More selectors than these are not tried one by one: each set of labels is told apart instead."""


@final
class Selections:
    """The selectors of known pods.

    Args:
        stated: Returns the selectors that a pod states; none for most pods.

    Attributes:
        stated: What each pod states that states some.
        version: Rises when a selector becomes known or is forgotten.
    """

    def __init__(self, stated: Callable[[Pod], tuple[PodMatcher, ...]]) -> None:
        self._ask = stated
        self.version: int = 0
        self.stated: dict[PodUID, tuple[PodMatcher, ...]] = {}
        self._known: dict[PodMatcher, tuple[int, int]] = {}  # a number, and how many state it
        self._index: MatcherIndex[PodMatcher] = MatcherIndex()
        self._by_namespace = 0  # how many of them read labels of namespaces

    def add(self, pod: Pod) -> None:
        """Note a pod, or its new version. O(its selectors)."""
        stated = self._ask(pod)
        before = self.stated.get(pod.uid, ())
        if stated is before or stated == before:
            return
        for selector in stated:
            number, count = self._known.get(selector, (0, 0))
            if not count:
                self.version += 1
                number = self.version
                self._index.add(selector, selector)
                self._by_namespace += _reads_namespace(selector)
            self._known[selector] = number, count + 1
        self.discard(pod.uid)
        if stated:
            self.stated[pod.uid] = stated

    def discard(self, uid: PodUID) -> None:
        """Forget a pod. O(its selectors)."""
        for selector in self.stated.pop(uid, ()):
            number, count = self._known[selector]
            if count > 1:
                self._known[selector] = number, count - 1
            else:
                self.version += 1
                del self._known[selector]
                self._index.discard(selector, selector)
                self._by_namespace -= _reads_namespace(selector)

    def about(self, pod: Pod) -> Hashable:
        """Return what is equal for pods that the same selectors are about; None without one.

        Runtime complexity: O(labels of the pod + selectors filed under them), and O(1) selectors
        that are filed under none.
        """
        if not self._known:
            return None
        if self._index.others > _MOST:
            return pod.labels, pod.namespace
        found = frozenset(self._known[each][0] for each in self._index.matching(pod))
        if not found:
            return None
        return found, pod.namespace if self.reads_namespace(pod) else ""

    def reads_namespace(self, pod: Pod) -> bool:
        """Return whether the labels of its namespace decide if a selector is about a pod."""
        if self._index.others > _MOST:
            return self._by_namespace > 0
        return any(map(_reads_namespace, self._index.matching(pod)))

    def check(self, pods: Iterable[Pod]) -> None:
        """Check the invariant. O(pods)."""
        stated = Counter(selector for pod in pods for selector in self._ask(pod))
        if stated != {selector: count for selector, (_number, count) in self._known.items()}:
            raise InternalError("the known selectors are not those of the known pods")


def _reads_namespace(selector: PodMatcher) -> bool:
    within = selector.namespace_selector
    return within is not None and not within.is_empty
