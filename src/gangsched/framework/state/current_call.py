"""What one call of the scheduler gathers: its effects, and what it has read.

Rules:
  R1  between two calls everything here is empty, unless a call raised. The effects that were posted
      by then, and the errors that were put off, stay for the next call;
  R2  the count of steps begins anew with each call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, final

from attrs import define, field

from gangsched._core._bundle import Bundle
from gangsched.errors import GangschedError
from gangsched.events import Effect, GroupIncomplete, GroupRejected, GroupScheduled
from gangsched.model import GroupKey, NodeName, PodGroup, PodUID

__all__ = ["CurrentCall"]


@final
@define(eq=False)
class CurrentCall:
    """What lives for one call.

    Attributes:
        out: The effects of the call so far.
        deferred: What plugins raised in steps that cannot stop half-way; raised at the end of the
            call.
        seen: The pods that the call has read, with their claims and signatures.
        alike: By signature, the first pod of each new equivalence class that the call has read.
        seen_specs: The specifications that the call has read.
        arrived: Pending pods that the call found on a node, by node.
        complete: A bundle that was found to be complete in this step, with the group that stands in
            the queue for it; empty outside of the step.
        refused: Waiting pods that a permit plugin refused when it was asked again, with the reason.
            They give their nodes back at the end of the call.
        steps: The steps that searches of this call have taken; see ``placement.budget_shares``.
        touched: The groups whose members have changed. Whether one runs, or has fallen below its
            minimum, is decided at the end of the call, when all that belongs together was read.
    """

    out: list[Effect] = field(factory=list[Effect])
    deferred: list[GangschedError] = field(factory=list[GangschedError])
    seen: dict[PodUID, Any] = field(factory=dict[PodUID, Any])
    alike: dict[Hashable, Any] = field(factory=dict[Hashable, Any])
    seen_specs: dict[GroupKey, PodGroup | None] = field(factory=dict[GroupKey, PodGroup | None])
    arrived: dict[NodeName, dict[PodUID, None]] = field(factory=dict[NodeName, dict[PodUID, None]])
    complete: tuple[Bundle, GroupKey] | tuple[()] = ()
    refused: dict[PodUID, str] = field(factory=dict[PodUID, str])
    touched: dict[GroupKey, None] = field(factory=dict[GroupKey, None])
    steps: int = 0

    def take(self) -> tuple[Effect, ...]:
        """Remove and return the effects; a notice that repeats is left out. O(effects).

        A group is asked more than once in a call whether it is complete, if its members or its
        specification change one after another. It is told again only if the answer differs.
        """
        if not self.out:
            return ()
        # counted without a loop in Python: each member of a gang has an effect
        if len(self.out) == 1 or list(map(type, self.out)).count(GroupIncomplete) < 2:
            effects = tuple(self.out)
        else:
            effects = tuple(_without_repeated(self.out))
        self.out.clear()
        return effects


def _without_repeated(effects: Iterable[Effect]) -> Iterator[Effect]:
    told: dict[GroupKey, GroupIncomplete] = {}
    for effect in effects:
        if isinstance(effect, GroupIncomplete):
            if told.get(effect.group) == effect:
                continue
            told[effect.group] = effect
        elif isinstance(effect, GroupRejected | GroupScheduled):
            told.pop(effect.group, None)
        yield effect
