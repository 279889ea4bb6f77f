"""Disruption budgets: which evictions would violate one.

Rules:
  R1  a budget allows a number of evictions among the pods that it covers. Pods count in the order
      in which they are asked about; an eviction beyond the number violates the budget;
  R2  a pod that only waits on permit is not evicted when it gives its node back, and a nominated
      pod holds no node; so neither counts;
  R3  budgets order the plans of preemption, and forbid none: as in kube-scheduler, a violation is
      the last resort.

Source: ``filterPodsWithPDBViolation`` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias, final

from gangsched.cluster_objects import PodDisruptionBudget
from gangsched.constraints.matchers import pairs_of
from gangsched.core.records.gang import PodRecord
from gangsched.core.state import State
from gangsched.cycle_state import objects_of
from gangsched.model import Pod, PodUID
from gangsched.primitives.counters import MemberState

__all__ = ["DisruptionBudgets", "disruption_budgets"]

_EVICTED: Final = (MemberState.BINDING, MemberState.ASSIGNED)

_Files: TypeAlias = dict[tuple[str, tuple[str, str] | None], list[int]]
"""Budgets by number, under their namespace and each label of a condition; None without one."""


@final
class DisruptionBudgets:
    """How many evictions the budgets of a cluster still allow.

    Args:
        known: The budgets.
    """

    def __init__(self, known: Iterable[PodDisruptionBudget]) -> None:
        self._known = tuple(known)
        self._left = [budget.disruptions_allowed for budget in self._known]
        self._covering: dict[PodUID, tuple[int, ...]] = {}
        self._files: _Files = {}
        for number, budget in enumerate(self._known):
            if budget.selector is not None:
                pairs = pairs_of(budget.selector)
                for pair in (None,) if pairs is None else dict.fromkeys(pairs):
                    self._files.setdefault((budget.namespace, pair), []).append(number)

    def take(self, pods: Iterable[PodRecord]) -> bool:
        """Count evictions; if they violate a budget, count none of them and return False."""
        spent = self._spent(pods)
        if any(self._left[number] < count for number, count in spent.items()):
            return False
        for number, count in spent.items():
            self._left[number] -= count
        return True

    def give_back(self, pods: Iterable[PodRecord]) -> None:
        """Undo ``take``."""
        for number, count in self._spent(pods).items():
            self._left[number] += count

    def violations(self, pods: Iterable[PodRecord]) -> int:
        """Return how many of these evictions, in order, violate a budget."""
        return sum(self.marks([record] for record in pods))

    def marks(self, evictions: Iterable[Iterable[PodRecord]]) -> list[bool]:
        """Return, for pods that are evicted together, in order, whether one violates a budget."""
        left: dict[int, int] = {}
        found: list[bool] = []
        for pods in evictions:
            violates = False
            for record in pods:
                for number in self._of(record):
                    allowed = left.get(number, self._left[number])
                    violates = violates or allowed <= 0
                    left[number] = allowed - 1
            found.append(violates)
        return found

    def _spent(self, pods: Iterable[PodRecord]) -> dict[int, int]:
        spent: dict[int, int] = {}
        for record in pods:
            for number in self._of(record):
                spent[number] = spent.get(number, 0) + 1
        return spent

    def _of(self, record: PodRecord) -> tuple[int, ...]:
        """Return the budgets that cover a pod, by number. O(budgets with a label of the pod)."""
        found = self._covering.get(record.uid)
        if found is None:
            found = ()
            if record.state in _EVICTED:
                found = tuple([n for n in self._tried(record.pod) if self._covers(n, record.pod)])
            self._covering[record.uid] = found
        return found

    def _covers(self, number: int, pod: Pod) -> bool:
        return self._known[number].covers(pod)

    def _tried(self, pod: Pod) -> list[int]:
        tried = list(self._files.get((pod.namespace, None), ()))
        for pair in pod.labels.items():
            # a budget is filed under labels of one key, and a pod has one value of it
            tried += self._files.get((pod.namespace, pair), ())
        return sorted(tried)


def disruption_budgets(state: State) -> DisruptionBudgets | None:
    """Return the disruption budgets of the cluster; None if there are none. O(budgets)."""
    known = tuple(objects_of(state.settings.cluster).all(PodDisruptionBudget))
    return DisruptionBudgets(known) if known else None
