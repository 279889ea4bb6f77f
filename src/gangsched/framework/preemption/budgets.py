"""Disruption budgets: which evictions would violate one.

Rules:
  R1  a budget allows a number of evictions among the pods that it covers. Pods count in the order
      in which they are asked about; an eviction beyond the number violates the budget;
  R2  a pod that only waits on permit is not evicted when it gives its node back, and a nominated
      pod holds no node; so neither counts;
  R3  a budget is tried only for pods of its namespace that have a label of one of its conditions;
  R4  budgets order the plans of preemption, and forbid none: as in kube-scheduler, a violation is
      the last resort.

Source: ``filterPodsWithPDBViolation`` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

from gangsched._core._counters import MemberState
from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.constraints.matchers import pairs_of
from gangsched.cycle_state import objects_of
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod, PodUID

__all__ = ["Budgets", "budgets"]

_COVERS: Final = 10
"""How many operations it is to ask whether a budget covers a pod."""

_FILES: Final = 5
"""How many operations it is to file a budget."""

_EVICTED = (MemberState.BINDING, MemberState.ASSIGNED)

_Files: TypeAlias = dict[tuple[str, tuple[str, str] | None], list[int]]
"""Budgets by number, under their namespace and each label of a condition; None without one."""


@final
class Budgets:
    """How many evictions the budgets of a cluster still allow.

    Args:
        pods: The known pods.
        known: The budgets.
        count: Called with the number of operations that a look at them was.
    """

    def __init__(
        self, pods: Pods, known: Iterable[PodDisruptionBudget], count: Callable[[int], None]
    ) -> None:
        self._pods = pods
        self._count = count
        self._known = tuple(known)
        self._left = [budget.disruptions_allowed for budget in self._known]
        self._covering: dict[PodUID, tuple[int, ...]] = {}
        self._files: _Files = {}

    def anew(self) -> Budgets:
        """Return the same budgets, with no eviction counted. O(budgets)."""
        made = Budgets(self._pods, self._known, self._count)
        made._covering = self._covering
        made._files = self._files
        return made

    def take(self, pods: Iterable[PodUID]) -> bool:
        """Count evictions; if they violate a budget, count none of them and return False."""
        spent = self._spent(pods)
        if any(self._left[number] < count for number, count in spent.items()):
            return False
        for number, count in spent.items():
            self._left[number] -= count
        return True

    def give_back(self, pods: Iterable[PodUID]) -> None:
        """Undo ``take``."""
        for number, count in self._spent(pods).items():
            self._left[number] += count

    def violations(self, pods: Iterable[PodUID]) -> int:
        """Return how many of these evictions, in order, violate a budget. See ``marks``."""
        return sum(self.marks((uid,) for uid in pods))

    def marks(self, evictions: Iterable[Iterable[PodUID]]) -> list[bool]:
        """Return, for pods that are evicted together, in order, whether one violates a budget.

        Runtime complexity: O(pods x budgets with a label of the pod); O(budgets) the first time.
        """
        left: dict[int, int] = {}
        found: list[bool] = []
        for pods in evictions:
            violates = False
            for uid in pods:
                for number in self._of(uid):
                    allowed = left.get(number, self._left[number])
                    violates = violates or allowed <= 0
                    left[number] = allowed - 1
            found.append(violates)
        return found

    def _spent(self, pods: Iterable[PodUID]) -> dict[int, int]:
        spent: dict[int, int] = {}
        for uid in pods:
            for number in self._of(uid):
                spent[number] = spent.get(number, 0) + 1
        return spent

    def _of(self, uid: PodUID) -> tuple[int, ...]:
        """Return the budgets that cover a pod, by number, in their order. See ``marks``."""
        found = self._covering.get(uid)
        if found is None:
            member, found = self._pods.members[uid], ()
            if member.state in _EVICTED:
                tried = self._filed_for(member.pod)
                self._count(_COVERS * (1 + len(tried)))
                found = tuple(n for n in tried if self._known[n].covers(member.pod))
            self._covering[uid] = found
        return found

    def _filed_for(self, pod: Pod) -> list[int]:
        """Return the budgets that may cover a pod, by number, in their order."""
        if not self._files:
            self._count(_FILES * len(self._known))
            _file(self._files, self._known)
        tried = list(self._files.get((pod.namespace, None), ()))
        for pair in pod.labels.items():
            # a budget is filed under labels of one key, and a pod has one value of it
            tried += self._files.get((pod.namespace, pair), ())
        return sorted(tried)


def _file(files: _Files, known: Iterable[PodDisruptionBudget]) -> None:
    for number, one in enumerate(known):
        if one.selector is None:
            continue
        pairs = pairs_of(one.selector)
        for pair in (None,) if pairs is None else dict.fromkeys(pairs):
            files.setdefault((one.namespace, pair), []).append(number)


def budgets(settings: Settings, pods: Pods, count: Callable[[int], None]) -> Budgets | None:
    """Return the disruption budgets of the cluster; None if there are none. O(budgets)."""
    known = tuple(objects_of(settings.cluster).all(PodDisruptionBudget))
    return Budgets(pods, known, count) if known else None
