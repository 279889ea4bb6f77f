"""What an observer outside a scheduler knows, and the laws that it can hold it to.

Rules:
  R1  it knows what the scheduler was told, and what it shows: placements, and nodes that are held;
  R2  it never finds fault with what any scheduler that keeps the laws may do;
  R3  while facts are told late, what the scheduler cannot know is not held against it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

from attrs import define, field

from gangsched.testing import _starts
from gangsched.testing._contract import PlainPod, Terms

__all__ = ["Broken", "Ledger"]

Hold = tuple[str, object]
_SLACK = 1e-6


class Broken(Exception):
    """A law is broken.

    Attributes:
        law: Its number.
        sentence: What was seen, and what was expected.
    """

    def __init__(self, law: int, sentence: str) -> None:
        super().__init__(law, sentence)
        self.law = law
        self.sentence = sentence


@define(eq=False)
class Ledger:
    """Pods, nodes and who is where.

    Attributes:
        terms: What the scheduler promises.
        now: Seconds since the story began.
        nodes: What each node offers.
        labels: The labels of each node.
        taints: The taints of each node.
        pods: The pods that are there.
        placed: Who is placed, and where.
        held: Who holds a node and waits, and in which attempt.
        started: The gangs that have started; see ``Terms.once``.
        late: Whether facts are told late.
    """

    terms: Terms
    now: float = 0.0
    nodes: dict[str, Mapping[str, int]] = field(factory=dict[str, Mapping[str, int]])
    labels: dict[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])
    taints: dict[str, Collection[str]] = field(factory=dict[str, Collection[str]])
    pods: dict[str, PlainPod] = field(factory=dict[str, PlainPod])
    placed: dict[str, str] = field(factory=dict[str, str])
    held: dict[str, Hold] = field(factory=dict[str, Hold])
    started: set[str] = field(factory=set[str])
    late: bool = False
    _since: dict[tuple[str, object], float] = field(factory=dict[tuple[str, object], float])
    _ghosts: dict[str, int] = field(factory=dict[str, int])
    _failed_at: dict[str, float] = field(factory=dict[str, float])

    # What is told ---------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, int],
        labels: Mapping[str, str],
        taints: Collection[str],
    ) -> None:
        """Let a node come."""
        self.nodes[name], self.labels[name], self.taints[name] = capacity, labels, taints

    def remove_node(self, name: str) -> None:
        """Let a node go."""
        del self.nodes[name], self.labels[name], self.taints[name]

    def leave(self, uid: str) -> None:
        """Let a pod go."""
        pod = self.pods.pop(uid)
        self._failed_at.pop(uid, None)
        if pod.group is None:
            return
        if self.late:
            self._ghosts[pod.group] = self._ghosts.get(pod.group, 0) + 1

    def be_told(self, late: bool) -> None:
        """Let facts be told late from now on, or no more."""
        self.late = late
        if not late:
            self._ghosts.clear()
            self._forget()

    def ghosts(self, group: str) -> int:
        """Return how many members of a gang are gone without the scheduler's knowing."""
        return self._ghosts.get(group, 0)

    def pace(self) -> float:
        """Return how many seconds may pass until the next look."""
        least = self.terms.rest_at_least
        rests = any(self.now - at < least for at in self._failed_at.values())
        return min(self.terms.pace, least / 2) if rests else self.terms.pace

    def members(self, group: str) -> list[str]:
        """Return the members of a gang that are there."""
        return [uid for uid, pod in self.pods.items() if pod.group == group]

    def pending(self) -> dict[str, list[str]]:
        """Return who is not placed: the members of a gang together, each other pod alone."""
        found: dict[str, list[str]] = {}
        for uid, pod in self.pods.items():
            if uid not in self.placed:
                found.setdefault(f"gang {pod.group}" if pod.group else uid, []).append(uid)
        return found

    def free(self, *, beside_held: bool = False) -> dict[str, dict[str, int]]:
        """Return what is free on each node, with or without what is held."""
        free = {name: dict(capacity) for name, capacity in self.nodes.items()}
        where = list(self.placed.items())
        where += [(uid, hold[0]) for uid, hold in self.held.items()] if beside_held else []
        for uid, name in where:
            if name in free and uid in self.pods:
                for resource, amount in self.pods[uid].requests.items():
                    free[name][resource] = free[name].get(resource, 0) - amount
        return free

    # What is seen ---------------------------------------------------------------------------

    def see(
        self,
        placed: Mapping[str, str],
        held: Mapping[str, Hold],
        *,
        failed: Collection[str] = (),
        restarted: bool = False,
    ) -> None:
        """Take in what the scheduler shows, and hold it to laws 1, 2, 6 and 8.

        Args:
            placed: Who is placed.
            held: Who holds a node and waits.
            failed: Who was reported to have failed since the last look.
            restarted: Whether what was held may be gone without further ado.
        """
        before, self.placed = self.placed, dict(placed)
        held_before, self.held = self.held, dict(held)
        self._are_there(before, failed)
        self._have_room()
        self._rest(failed, restarted=restarted)
        self._start_together(before)
        if not restarted:
            self._fall_together(held_before)
        self._let_go_in_time()
        self._forget()

    def _forget(self) -> None:
        """Let gangs have to start together again of which nobody is there any more."""
        if not self.late:
            there = self.pods if self.terms.once else self.placed
            self.started &= {self.pods[uid].group or "" for uid in there}

    def _are_there(self, before: Mapping[str, str], failed: Collection[str]) -> None:
        """Law 8: each pod is in one place, which exists, and stays there."""
        for uid, name in self.placed.items():
            if uid not in self.pods:
                _break(8, f"{uid} is placed on {name}, and does not exist (any more)")
            if name not in self.nodes:
                _break(8, f"{uid} is placed on {name}, and there is no such node")
            if before.get(uid, name) != name and uid not in failed:
                _break(8, f"{uid} was placed on {before[uid]}, and is now placed on {name}")
        for uid, name in before.items():
            gone = uid not in self.pods or uid in failed or self.terms.evicts
            if uid not in self.placed and not gone:
                _break(8, f"{uid} was placed on {name}, and is on no node; nobody cancelled it")
        for uid, (name, _attempt) in self.held.items():
            if uid in self.placed:
                _break(8, f"{uid} is placed on {self.placed[uid]}, and also holds {name}")
            if uid not in self.pods and not self.late:
                _break(8, f"{uid} holds {name}, and does not exist (any more)")
            if name not in self.nodes and not self.late:
                _break(8, f"{uid} holds {name}, and there is no such node")

    def _have_room(self) -> None:
        """Law 8: no node is taken for more than it offers."""
        for name, free in self.free(beside_held=True).items():
            for resource, amount in free.items():
                if amount < 0:
                    offered = self.nodes[name].get(resource, 0)
                    there = [uid for uid, node in self.placed.items() if node == name]
                    there += [uid for uid, hold in self.held.items() if hold[0] == name]
                    _break(
                        8,
                        f"{name} offers {offered} {resource}, and {', '.join(there)} "
                        f"take {offered - amount} of it",
                    )

        held = {uid: hold[0] for uid, hold in self.held.items()}
        _hold(8, _starts.intruder(self.pods, self.placed | held, self.taints))

    def _rest(self, failed: Collection[str], *, restarted: bool) -> None:
        """Law 5: whose start has failed is left alone for a while."""
        if restarted:
            self._failed_at.clear()  # a new process knows of no failure
        self._failed_at.update(dict.fromkeys(failed, self.now))
        for uid, at in list(self._failed_at.items()):
            if uid in self.placed:
                del self._failed_at[uid]
                rested, least = self.now - at, self.terms.rest_at_least
                # a bundle is tried when one of its gangs is
                if rested < least - _SLACK and not self.pods[uid].bundle:
                    sentence = f"the start of {uid} failed, and it is started again after"
                    _break(5, f"{sentence} {rested:g} s, not after {least:g} s at least")

    def _start_together(self, before: Mapping[str, str]) -> None:
        """Law 1: a gang starts with as many members as it needs, or not at all."""
        news = [uid for uid, name in self.placed.items() if before.get(uid) != name]
        groups = [g for g in dict.fromkeys(self.pods[uid].group for uid in news) if g is not None]
        starting = [group for group in groups if group not in self.started]
        for group in starting:
            _hold(1, _starts.in_part(self, group))
        self.started.update(starting)
        for group in starting:
            _hold(1, _starts.without(self, group))
        for group in groups:
            _hold(1, _starts.apart(self, group))

    def _fall_together(self, before: Mapping[str, Hold]) -> None:
        """Law 2: when one member of an attempt lets go, nobody of it holds a node."""
        fell: dict[tuple[str, object], str] = {}
        for uid, (name, attempt) in before.items():
            pod = self.pods.get(uid)
            if pod is None or pod.group is None or uid in self.placed or name not in self.nodes:
                continue
            if uid not in self.held or self.held[uid][1] != attempt:
                fell[pod.group, attempt] = uid
        for uid, (name, attempt) in self.held.items():
            pod = self.pods.get(uid)
            if pod is None or pod.group is None or before.get(uid) != (name, attempt):
                continue
            first = fell.get((pod.group, attempt))
            if first is not None:
                _break(
                    2,
                    f"gang {pod.group}: {first} has let go of {before[first][0]}, and {uid} still "
                    f"holds {name}",
                )

    def _let_go_in_time(self) -> None:
        """Law 6: nodes are held for one timeout per attempt at most."""
        before, self._since = self._since, {}
        for uid, (name, attempt) in self.held.items():
            pod = self.pods.get(uid)
            key = (f"gang {pod.group}" if pod and pod.group else uid, attempt)
            since = self._since[key] = before.get(key, self.now)
            if self.now - since > self.terms.hold_timeout + _SLACK:
                _break(
                    6,
                    f"{key[0]} holds nodes for {self.now - since:g} s and more ({uid} {name}), "
                    f"not for {self.terms.hold_timeout:g} s at most",
                )

    def lines(self) -> Iterable[str]:
        """Yield who is where, for people."""
        for uid, name in self.placed.items():
            yield f"{uid} is placed on {name}"
        for uid, (name, attempt) in self.held.items():
            yield f"{uid} holds {name} and waits" + (f", attempt {attempt}" if attempt else "")
        for uid in self.pods:
            if uid not in self.placed and uid not in self.held:
                yield f"{uid} is on no node"


def _hold(law: int, problem: str) -> None:
    if problem:
        _break(law, problem)


def _break(law: int, sentence: str) -> NoReturn:
    raise Broken(law, sentence)
