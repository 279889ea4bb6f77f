"""A correct gang scheduler that shares no code with gangsched; the kit must accept it.

It places pod by pod, with a permit. The members of one gang take nodes, and wait until they are a
quorum. One gang waits at a time, for ten seconds at most. Then its attempt is rejected: all its
nodes are given back, and the gang goes to the end of the queue.

Each decision is a small method, so that a wrong scheduler can override one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HOLD = 10.0


class SimpleScheduler:
    """A correct gang scheduler; see the module."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: dict[str, Mapping[str, int]] = {}
        self.pods: dict[str, Any] = {}
        self.where: dict[str, str] = {}
        self.waiting: dict[str, int] = {}
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
        for uid in [uid for uid in self.waiting if self.where[uid] == name]:
            if uid in self.waiting:
                self.reject_gang(self.gang(uid))

    def submit(self, pod: Any) -> None:
        self.pods[pod.uid] = pod

    def cancel(self, uid: str) -> None:
        gang = self.gang(uid)
        waited = uid in self.waiting
        del self.pods[uid]
        self.where.pop(uid, None)
        self.waiting.pop(uid, None)
        self.running.discard(uid)
        if waited:
            self.reject_gang(gang)

    def tick(self, seconds: float) -> None:
        end = self.now + seconds
        self.decide()
        while due := [gang for gang, deadline in self.deadlines.items() if deadline <= end]:
            self.now = max(self.now, self.deadlines[due[0]])
            self.reject_gang(due[0])
            self.decide()
        self.now = end

    def placements(self) -> Mapping[str, str]:
        return {uid: node for uid, node in self.where.items() if uid not in self.waiting}

    def waiting_pods(self) -> Mapping[str, tuple[str, int]]:
        return {uid: (self.where[uid], attempt) for uid, attempt in self.waiting.items()}

    def bind_succeeded(self, uid: str) -> None:
        self.running.add(uid)

    def bind_failed(self, uid: str) -> None:
        del self.where[uid]

    def restart(self) -> None:
        for uid in self.waiting:
            del self.where[uid]
        self.waiting.clear()
        self.deadlines.clear()
        self.running = set(self.where)

    def stop(self) -> None:
        pass

    def start(self, seconds: float) -> None:
        self.tick(seconds)

    def decision_count(self) -> int:
        return self.done

    # Decisions ------------------------------------------------------------------------------

    def decide(self) -> None:
        for gang, uids in list(self.turns()):
            needed = self.needed(gang)
            if needed <= 1:
                for uid in uids:
                    self.take(uid)
                    self.waiting.pop(uid, None)
                self.deadlines.pop(gang, None)
            elif len(self.pending(gang)) >= needed and self.may_start_attempt(gang):
                self.attempt(gang, uids, needed)

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each gang with its pending pods; gangs that failed last come last."""
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
                self.waiting[uid] = self.attempts[gang]
                self.after_hold(gang)
            held = [u for u in self.members(gang) if u in self.waiting]
            if self.is_quorum(len(held), needed):
                for each in held:
                    del self.waiting[each]
                del self.deadlines[gang]
                return
        if not any(uid in self.waiting for uid in self.members(gang)):
            self.reject_gang(gang)

    def after_hold(self, gang: str) -> None:
        pass

    def is_quorum(self, held: int, needed: int) -> bool:
        return held >= needed

    def may_start_attempt(self, gang: str) -> bool:
        return not self.deadlines or gang in self.deadlines

    def reject_gang(self, gang: str) -> None:
        self.failures += 1
        self.failed[gang] = self.failures
        self.deadlines.pop(gang, None)
        for uid in self.waiting_members(gang):
            del self.waiting[uid]
            del self.where[uid]

    def waiting_members(self, gang: str) -> list[str]:
        return [uid for uid in self.members(gang) if uid in self.waiting]

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
        return [u for u in self.members(gang) if u not in self.where or u in self.waiting]

    def needed(self, gang: str) -> int:
        """Return how many members must hold a node at the same time."""
        members = self.members(gang)
        placed = sum(uid in self.where and uid not in self.waiting for uid in members)
        return 1 if placed else int(self.pods[members[0]].min_available)
