"""How often gangs took nodes or shares from others and lost them to another queue.

Reclaim lets a queue take from another one, and priority lets a gang take from a lower one of its
own queue. Each is in order by itself. In turn, they may lead back to where they began. So a gang
that has taken and lost again to another queue ``_MOST`` times takes nothing more until something
else changes: until a pod ends by itself, a node changes, or the quotas are replaced. It still
starts in room that is free.

So preemption comes to rest. Suppose that gangs take without end although nothing else changes. From
some point on, none that has taken loses to another queue, since there are finitely many gangs. So
one that takes again and again is evicted by a higher priority of its own queue each time, and that
one takes again and again, too. But there is a highest one.

Gangs are known by name, since what is evicted is created again: a group by its key, and a regular
pod by its namespace and name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from gangsched.core.records.gang import GangRecord

__all__ = ["Takers"]

_MOST: Final = 3


@final
class Takers:
    """What gangs have taken and lost since anything else has changed.

    Attributes:
        known: By name, how often a gang has lost, and whether it has taken since the last time.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, bool]] = {}

    def note_plan(self, taker: GangRecord, losers: Iterable[GangRecord]) -> None:
        """Note that a gang takes from others; the losers are those of other queues. O(losers)."""
        losses, _has_taken = self.known.get(_name(taker), (0, False))
        self.known[_name(taker)] = losses, True
        for name in {_name(loser) for loser in losers}:
            losses, has_taken = self.known.get(name, (0, False))
            if has_taken:
                self.known[name] = losses + 1, False

    def is_barred(self, gang: GangRecord) -> bool:
        """Return whether a gang may take nothing more until something else changes. O(1)."""
        return bool(self.known) and self.known.get(_name(gang), (0, False))[0] >= _MOST

    def renew(self, gangs: Iterable[GangRecord]) -> list[GangRecord]:
        """Forget all, as something else has changed; return which gangs were barred.

        Runtime complexity: O(takers), and O(gangs) if one was barred.
        """
        known, self.known = self.known, {}
        barred = {name for name, (losses, _has_taken) in known.items() if losses >= _MOST}
        return [gang for gang in gangs if gang.members and _name(gang) in barred] if barred else []


def _name(gang: GangRecord) -> str:
    return gang.key if gang.infos else gang.pod.key
