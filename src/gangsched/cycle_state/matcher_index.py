"""MatcherIndex: which of many matchers match a pod, without trying all of them.

A matcher is filed under the labels of one of its conditions (``PodMatcher.pairs``). So a look-up
tries the matchers that are filed under a label of the pod, and those without such a condition.

Invariant: each value is filed once under each pair of its matcher, or among the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, final

from gangsched.constraints.matchers import PodMatcher
from gangsched.model import Pod

__all__ = ["MatcherIndex"]

T = TypeVar("T")


@final
class MatcherIndex(Generic[T]):
    """Values by the matcher that they belong to.

    Runtime complexity: ``add`` and ``discard`` O(values of a condition); ``matching`` O(labels of
    the pod + values that are filed under them).
    """

    __slots__ = ("_filed", "_others")

    def __init__(self) -> None:
        self._filed: dict[tuple[str, str], dict[T, PodMatcher]] = {}
        self._others: dict[T, PodMatcher] = {}

    @property
    def others(self) -> int:
        """How many values have to be tried for every pod, since they are under no label."""
        return len(self._others)

    def add(self, matcher: PodMatcher, value: T) -> None:
        """File a value under a matcher."""
        pairs = matcher.pairs()
        if pairs is None:
            self._others[value] = matcher
            return
        for pair in pairs:
            self._filed.setdefault(pair, {})[value] = matcher

    def discard(self, matcher: PodMatcher, value: T) -> None:
        """Remove a value."""
        self._others.pop(value, None)
        for pair in matcher.pairs() or ():
            filed = self._filed.get(pair)
            if filed is not None:
                filed.pop(value, None)
                if not filed:
                    del self._filed[pair]

    def matching(self, pod: Pod) -> Iterator[T]:
        """Iterate over the values whose matcher may match a pod; see ``PodMatcher.may_match``."""
        namespace, labels = pod.namespace, pod.labels
        if self._filed:
            # a matcher is filed under labels of one key, and a pod has one value of it
            for pair in labels.items():
                for value, matcher in self._filed.get(pair, {}).items():
                    if matcher.may_match(namespace, labels):
                        yield value
        for value, matcher in self._others.items():
            if matcher.may_match(namespace, labels):
                yield value
