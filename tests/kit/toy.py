"""A correct toy scheduler that shares no code with the library, for the kit to find nothing in.

Pod by pod with a permit: members of the gang whose turn it is take nodes and hold them until there
are enough of them. One gang holds nodes at a time, for ten seconds at most; then it lets go of all
and goes behind everybody. What is free is counted anew each time.

Each step of it is a small method, for the wrong schedulers to get wrong one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HOLD = 10.0


class Toy:
    """See the module."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[str, Mapping[str, int]] = {}
        self.pods: dict[str, Any] = {}
        self.where: dict[str, str] = {}
        self.waits: dict[str, int] = {}
        self.running: set[str] = set()
        self.deadlines: dict[str, float] = {}
        self.attempts: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.failures = self.done = 0

    # The contract ---------------------------------------------------------------------------

    def add_node(self, name: str, capacity: Mapping[str, int]) -> None:
        self.nodes[name] = capacity

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        for uid in [uid for uid in self.waits if self.where[uid] == name]:
            if uid in self.waits:
                self.fall(self.gang(uid))

    def submit(self, pod: Any) -> None:
        self.pods[pod.uid] = pod

    def cancel(self, uid: str) -> None:
        gang = self.gang(uid)
        waited = uid in self.waits
        del self.pods[uid]
        self.where.pop(uid, None)
        self.waits.pop(uid, None)
        self.running.discard(uid)
        if waited:
            self.fall(gang)

    def tick(self, seconds: float) -> None:
        end = self.now + seconds
        self.decide()
        while due := [gang for gang, deadline in self.deadlines.items() if deadline <= end]:
            self.now = max(self.now, self.deadlines[due[0]])
            self.fall(due[0])
            self.decide()
        self.now = end

    def placements(self) -> Mapping[str, str]:
        return {uid: node for uid, node in self.where.items() if uid not in self.waits}

    def held(self) -> Mapping[str, tuple[str, int]]:
        return {uid: (self.where[uid], attempt) for uid, attempt in self.waits.items()}

    def bind_succeeded(self, uid: str) -> None:
        self.running.add(uid)

    def bind_failed(self, uid: str) -> None:
        del self.where[uid]

    def restart(self) -> None:
        for uid in self.waits:
            del self.where[uid]
        self.waits.clear()
        self.deadlines.clear()
        self.running = set(self.where)

    def work(self) -> int:
        return self.done

    # Decisions ------------------------------------------------------------------------------

    def decide(self) -> None:
        for gang, uids in list(self.turns()):
            needed = self.needed(gang)
            if needed <= 1:
                for uid in uids:
                    self.take(uid)
                    self.waits.pop(uid, None)
                self.deadlines.pop(gang, None)
            elif len(self.pending(gang)) >= needed and self.may_hold(gang):
                self.attempt(gang, uids, needed)

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        """Who is tried, in order: who failed goes behind everybody who has not since."""
        gangs = dict.fromkeys(self.gang(uid) for uid in self.pods)
        for gang in sorted(gangs, key=self.place):
            if pending := self.pending(gang):
                yield gang, pending

    def place(self, gang: str) -> tuple[int, int]:
        first = self.pods[self.members(gang)[0]]
        return self.failed.get(gang, 0), -first.priority

    def attempt(self, gang: str, uids: list[str], needed: int) -> None:
        if gang not in self.deadlines:
            self.attempts[gang] = self.attempts.get(gang, 0) + 1
            self.deadlines[gang] = self.now + HOLD
        for uid in uids:
            if uid not in self.where and self.take(uid):
                self.waits[uid] = self.attempts[gang]
                self.after_hold(gang)
            held = [u for u in self.members(gang) if u in self.waits]
            if self.is_quorum(len(held), needed):
                for each in held:
                    del self.waits[each]
                del self.deadlines[gang]
                return
        if not any(uid in self.waits for uid in self.members(gang)):
            self.fall(gang)

    def after_hold(self, gang: str) -> None:
        pass

    def is_quorum(self, held: int, needed: int) -> bool:
        return held >= needed

    def may_hold(self, gang: str) -> bool:
        return not self.deadlines or gang in self.deadlines

    def fall(self, gang: str) -> None:
        self.failures += 1
        self.failed[gang] = self.failures
        self.deadlines.pop(gang, None)
        for uid in self.let_go_of(gang):
            del self.waits[uid]
            del self.where[uid]

    def let_go_of(self, gang: str) -> list[str]:
        return [uid for uid in self.members(gang) if uid in self.waits]

    def take(self, uid: str) -> bool:
        self.done += 1
        for node in self.nodes:
            if all(self.free(node, name) >= n for name, n in self.pods[uid].requests.items()):
                self.where[uid] = node
                return True
        return False

    # Counting -------------------------------------------------------------------------------

    def free(self, node: str, resource: str) -> int:
        there = [self.pods[uid] for uid, name in self.where.items() if name == node]
        taken = sum(int(pod.requests[resource]) for pod in there)
        return self.nodes[node].get(resource, 0) - taken

    def gang(self, uid: str) -> str:
        return self.pods[uid].group or f"alone {uid}"

    def members(self, gang: str) -> list[str]:
        return [uid for uid in self.pods if self.gang(uid) == gang]

    def pending(self, gang: str) -> list[str]:
        return [u for u in self.members(gang) if u not in self.where or u in self.waits]

    def needed(self, gang: str) -> int:
        """How many members have to hold a node at once."""
        members = self.members(gang)
        placed = sum(uid in self.where and uid not in self.waits for uid in members)
        return 1 if placed else int(self.pods[members[0]].min_available)
