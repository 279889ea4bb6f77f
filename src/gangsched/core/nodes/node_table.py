"""The nodes: what is free, which nodes are in equal states, and which have changed.

Theory of operation. Nodes in equal states share a ``NodeState``: equal taints and other static
fields, equal values of the labels that anything reads, equal amounts offered and free. A node that
takes a pod moves to another state. So what is derived from nodes is derived from states, and costs
as much as there are different ones. Sharing is storage only: each node is known by its *slot*, an
index that it keeps as long as it, a pod on it or a hold there is known.

Every move appends the two states to one *log*. Whatever is derived remembers how far it has read,
and reads on before it answers. This is the only invalidation there is.

A *trial* takes capacity for real and remembers what it took; ``rewind`` gives it back. So a plan
needs no copy of the cluster, and whoever reads the log sees a plan as it sees the truth.

Invariants (``check``, and ``check_records`` for what pods take):
  I1  each state counts its slots, and can name them;
  I2  two states have different keys;
  I3  what is free is what is offered without what the pods on the node need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from hashlib import sha256
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from typing import Any, ClassVar, Final, TypeAlias, final

from gangsched.core.nodes.domains import Domains
from gangsched.core.nodes.marks import Mark, Marks
from gangsched.errors import InternalError
from gangsched.model import FrozenMap, Node, NodeName, Resources
from gangsched.options.levels import NO_LEVELS, Levels
from gangsched.primitives.gang_tree import HOST
from gangsched.quantity import MILLI

__all__ = [
    "DEFAULTED",
    "GONE",
    "MOST_EMPTIES",
    "Needs",
    "NodeState",
    "NodeTable",
    "PODS",
    "UNLIMITED",
]

PODS: Final = 0
"""The number of the resource ``pods``, of which each pod needs one."""
GONE: Final = -1
"""The kind of nodes that do not exist, though pods on them are known."""
DEFAULTED: Final = "defaulted/"
"""Before the name of a resource: what pods count for in scores only, so it is never short."""
MOST_EMPTIES: Final = 15
"""The most levels that ``NodeTable.empties`` counts: it is a part of a rank."""
UNLIMITED: Final = 1 << 50
"""How many pods a node takes that states no limit, in thousandths."""

Needs: TypeAlias = tuple[tuple[int, int], ...]
"""What a pod takes of its node: numbers of resources, each with an amount in thousandths."""
_Amounts: TypeAlias = tuple[int, ...]
_Key: TypeAlias = tuple[int, _Amounts, _Amounts]
_KindKey: TypeAlias = tuple[Hashable, tuple[str | None, ...], Marks]


@final
class NodeState:
    """Nodes in equal states.

    Attributes:
        number: Unique, ascending in the order of creation.
        kind: The number of their static kind; ``GONE`` if they do not exist.
        free: What is free, by the number of a resource.
        offered: What they offer, by the number of a resource.
        count: How many nodes are in this state; 0 for one that no node is in any more.
        order: Breaks ties between states. It depends on the nodes alone, and not on their history,
            so that a scheduler that was restarted chooses as before.
    """

    SHALLOW: ClassVar[tuple[str, ...]] = ("_heap",)
    __slots__ = ("_heap", "count", "free", "key", "kind", "number", "offered", "order")

    def __init__(self, number: int, key: _Key, kind_text: str) -> None:
        self.number: int = number
        self.key: tuple[int, tuple[int, ...], tuple[int, ...]] = key
        self.order: tuple[tuple[int, ...], tuple[int, ...], str] = (key[1], key[2], kind_text)
        self.kind: int = key[0]
        self.free: tuple[int, ...] = key[1]
        self.offered: tuple[int, ...] = key[2]
        self.count: int = 0
        # names with their slots; some of nodes that are in another state by now
        self._heap: list[tuple[NodeName, int]] = []

    def __repr__(self) -> str:
        return f"<NodeState {self.number} kind={self.kind} nodes={self.count}>"


@final
class NodeTable:
    """The nodes, by slot and by state.

    Attributes:
        slots: The slot of each known name.
        names: The name of each slot.
        nodes: The node of each slot; None if it does not exist.
        state_of: The state of each slot.
        states: The states by key; some may be without nodes until ``trim``.
        resources: The number of each resource that a node offers or a pod requests.
        samples: For each static kind, a node of it. Nodes of one kind have equal signatures and
            equal values of the labels that are watched, so static plugins answer alike, and equal
            marks, which are in ``marks``. ``empties``: of how many levels they are in a domain
            that has no pods; ``plain``: equal for kinds that differ in their marks alone.
        numbering: How often the kinds were numbered anew.
        domains: The nodes by domain.
        log: The states that gained or lost a node; ``log_start`` is the number of the first entry.
        gains: The slots that may take more than before, each with the step since which they could
            not; see ``Queue.wake``.
    """

    DERIVED: ClassVar[Mapping[str, Callable[[], Any]]] = {"log": list}
    SHALLOW: ClassVar[tuple[str, ...]] = ("_signatures", "nodes")
    """What a copy has of its own, with the same items, which are values; see ``forking``."""

    def __init__(self, levels: Levels = NO_LEVELS) -> None:
        self.slots: dict[NodeName, int] = {}
        self.names: list[NodeName] = []
        self.nodes: list[Node | None] = []
        self.state_of: list[NodeState] = []
        self.states: dict[_Key, NodeState] = {}
        self.resources: dict[str, int] = {"pods": PODS}
        self.samples: list[Node] = []
        self.marks: list[Marks] = []
        self.empties: list[int] = []
        self.plain: list[int] = []
        self.numbering: int = 0
        self.domains: Domains = Domains(self.nodes, levels)
        self.log: list[NodeState] = []
        self.log_start: int = 0
        self.gains: dict[int, int] = {}
        self.count: int = 0
        self._unused: list[int] = []
        self._signatures: list[Hashable] = []
        self._kept: dict[int, int] = {}  # how many holds refer to a slot, which may hold nothing
        self._watched: dict[str, None] = {}
        self._kinds: dict[_KindKey, int] = {}
        self._plains: dict[tuple[Hashable, tuple[str | None, ...]], int] = {}
        self._kind_keys: list[_KindKey] = []
        self._kind_texts: list[str] = []
        self._states_made = 0
        self._needs: dict[tuple[Resources, FrozenMap[int]], Needs] = {}
        self._digests: dict[int, tuple[Node, int]] = {}
        self._undo: list[tuple[int, Needs, int]] | None = None

    # Nodes --------------------------------------------------------------------------------------

    def set(self, node: Node, signature: Hashable = None) -> None:
        """Add a node, or take over a change of it. O(resources + labels).

        Args:
            node: The node.
            signature: What static plugins read of it besides its labels.
        """
        slot = self.slot(node.name)
        offers = node.allocatable
        self.know(offers)
        offered = tuple([int(offers.get(name, 0)) for name in self.resources])
        if "pods" not in offers:
            offered = (UNLIMITED, *offered[1:])
        before = self.nodes[slot]
        if before is None:
            self.count += 1
        if before is None or before.labels != node.labels:
            if before is not None:
                self.domains.remove(slot, before)
            self.nodes[slot] = node
            self.domains.put(slot, node)
        self.nodes[slot] = node
        self._signatures[slot] = signature
        self._offer(slot, self._kind(node, signature, self.marks_of(slot)), offered)
        self.gained(slot)

    def remove(self, name: NodeName) -> None:
        """Forget a node; its slot is kept for the pods on it. O(resources)."""
        slot = self.slots.get(name)
        node = None if slot is None else self.nodes[slot]
        if slot is not None and node is not None:
            self.count -= 1
            self.domains.remove(slot, node)
            self.nodes[slot] = None
            self._digests.pop(slot, None)
            self._offer(slot, GONE, (0,) * len(self.resources))
            self._forget_if_unused(slot)

    def slot(self, name: NodeName) -> int:
        """Return the slot of a name; a new one for an unknown name."""
        slot = self.slots.get(name)
        if slot is not None:
            return slot
        if self._unused:
            slot = self.slots[name] = self._unused.pop()
            self.names[slot] = name
            self._enter(slot, self.state_of[slot])
            return slot
        slot = self.slots[name] = len(self.names)
        self.names.append(name)
        self.nodes.append(None)
        self._signatures.append(None)
        nothing = (0,) * len(self.resources)
        state = self._state((GONE, nothing, nothing))
        self.state_of.append(state)
        self._enter(slot, state)
        return slot

    def mark(
        self, slots: Iterable[int], place: int, mark: Mark | None, since: int | None = None
    ) -> None:
        """Give nodes another mark of one level. O(nodes), in one step for those in one state.

        Args:
            slots: The nodes.
            place: Which of their marks it is; the number of them for one more.
            mark: The mark; None for none of that level any more.
            since: If they may take more than before, the step since which they could not.
        """
        groups: dict[NodeState, list[int]] = {}
        for slot in slots:
            groups.setdefault(self.state_of[slot], []).append(slot)
        for old, some in groups.items():
            if old.kind == GONE:
                continue
            marks = self.marks[old.kind]
            given = () if mark is None else (mark,)
            if marks[place : place + 1] != given:
                signature, values, _marks = self._kind_keys[old.kind]
                key = (signature, values, (*marks[:place], *given, *marks[place + 1 :]))
                kind = self._kind_of(key, self.samples[old.kind])
                self._put_all(some, old, self._state((kind, old.free, old.offered)))
                for slot in some if since is not None and self._undo is None else ():
                    self.gained(slot, since or 0)

    def marks_of(self, slot: int) -> Marks:
        """Return the marks of a node."""
        kind = self.state_of[slot].kind
        return () if kind == GONE else self.marks[kind]

    def _put_all(self, slots: list[int], old: NodeState, new: NodeState) -> None:
        """Put nodes that are in one state in another one. O(nodes)."""
        state_of, names = self.state_of, self.names
        for slot in slots:
            state_of[slot] = new
        old.count -= len(slots)
        new.count += len(slots)
        if new.count == len(slots) and not old.count:
            new._heap, old._heap = old._heap, []
        elif len(slots) <= _FEW:
            for slot in slots:
                heappush(new._heap, (names[slot], slot))
        else:
            new._heap += [(names[slot], slot) for slot in slots]
            heapify(new._heap)
        if len(new._heap) > 2 * new.count + _SPARE_NAMES:
            new._heap = [(names[each], each) for each in self.slots_in(new)]
        self.log += (old, new)

    def keep(self, slot: int) -> None:
        """Keep a slot for one more hold, whatever it holds there."""
        self._kept[slot] = self._kept.get(slot, 0) + 1

    def let_go(self, slot: int) -> None:
        """Keep a slot for one hold less; ``give`` what it holds next."""
        self._kept[slot] -= 1
        if not self._kept[slot]:
            del self._kept[slot]

    def number(self, resource: str) -> int:
        """Return the number of a resource. O(nodes) for a new one."""
        if resource not in self.resources:
            self.know((resource,))
        return self.resources[resource]

    def know(self, resources: Iterable[str]) -> None:
        """Give each new one of some resources a number. O(nodes) if there are any."""
        new = [each for each in resources if each not in self.resources]
        if new:
            for each in new:
                self.resources[each] = len(self.resources)
            nothing = (0,) * len(new)
            self._renew(lambda _slot, s: (s.kind, s.free + nothing, s.offered + nothing))

    def watch(self, labels: Iterable[str]) -> None:
        """Distinguish nodes by further labels. O(nodes) if one of them is new."""
        new = [key for key in labels if key not in self._watched]
        if new:
            self._watched.update(dict.fromkeys(new))
            self._renumber()

    def _renumber(self) -> None:
        """Number the kinds anew. O(nodes)."""
        self.numbering += 1
        marks = [self.marks_of(slot) for slot in range(len(self.nodes))]
        self._kinds.clear()
        self._plains.clear()
        for each in (self.samples, self.marks, self.empties, self.plain, self._kind_keys):
            each.clear()
        self._kind_texts.clear()
        signed = zip(self.nodes, self._signatures, marks, strict=True)
        kinds = [GONE if node is None else self._kind(node, s, m) for node, s, m in signed]
        self._renew(lambda slot, s: (kinds[slot], s.free, s.offered))

    def tells_apart(self, labels: Iterable[str]) -> bool:
        """Return whether nodes of one kind have equal values of these labels. O(labels)."""
        return all(key in self._watched for key in labels)

    def digest(self) -> str:
        """Return a digest of the nodes. O(nodes), of which those are read that have changed."""
        total, known = 0, self._digests
        for slot, node in enumerate(self.nodes):
            if node is not None:
                found = known.get(slot)
                if found is None or found[0] is not node:
                    part = sha256(repr(node).encode()).digest()
                    found = known[slot] = (node, int.from_bytes(part[:16], "big"))
                total ^= found[1]
        return f"{total:032x}"

    # Capacity -----------------------------------------------------------------------------------

    def needs(self, requests: Resources) -> Needs:
        """Return what a pod with these requests takes of its node."""
        key = (requests, requests.defaulted)  # equality of requests leaves the second out
        found = self._needs.get(key)
        if found is None:
            if len(self._needs) > _MOST_NEEDS:
                self._needs.clear()
            amounts = {name: int(amount) for name, amount in requests.items() if name != "pods"}
            amounts = {"pods": MILLI + int(requests.get("pods", 0)), **amounts}
            amounts |= {DEFAULTED + name: int(more) for name, more in requests.defaulted.items()}
            self.know(amounts)
            found = tuple([(self.resources[name], amount) for name, amount in amounts.items()])
            self._needs[key] = found
        return found

    def take(self, slot: int, needs: Needs, times: int = 1) -> NodeState:
        """Take what some pods need; return the state that the node is in then. O(resources)."""
        if self._undo is not None:
            self._undo.append((slot, needs, times))
        return self._shift(slot, needs, -times)

    def give(self, slot: int, needs: Needs, since: int = 0) -> None:
        """Give back what a pod took. O(resources).

        Args:
            slot: The node.
            needs: What the pod took.
            since: The step since which the capacity was taken; 0 for unknown.
        """
        if self._undo is not None:
            self._undo.append((slot, needs, -1))
        else:
            self.gained(slot, since)
        self._shift(slot, needs, 1)
        if self.nodes[slot] is None and self._undo is None:
            self._forget_if_unused(slot)

    def gained(self, slot: int, since: int = 0) -> None:
        """Note that a node may take more than before."""
        known = self.gains.get(slot)
        self.gains[slot] = since if known is None else min(known, since)

    def total_free(self) -> dict[str, int]:
        """Return what all nodes have free together. O(states x resources)."""
        total = [0] * len(self.resources)
        for state in self.states.values():
            if state.count and state.kind != GONE:
                for number, amount in enumerate(state.free):
                    if amount > 0:
                        total[number] += amount * state.count
        return {name: total[n] for name, n in self.resources.items() if total[n]}

    # Trials -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a trial."""
        assert self._undo is None, "a trial is under way"
        self._undo = []
        self.trim()

    def point(self) -> int:
        """Return a point of the trial that ``rewind`` returns to."""
        assert self._undo is not None
        return len(self._undo)

    def rewind(self, mark: int = 0) -> None:
        """Undo what the trial did since a point. What was given back meanwhile costs no move."""
        undo = self._undo
        assert undo is not None
        left: dict[tuple[int, Needs], int] = {}
        for slot, needs, times in undo[mark:]:
            left[slot, needs] = left.get((slot, needs), 0) + times
        del undo[mark:]
        for (slot, needs), times in left.items():
            if times:
                self._shift(slot, needs, times)

    def end(self) -> None:
        """End the trial; what it holds now is kept."""
        self._undo = None

    # States -------------------------------------------------------------------------------------

    def _offer(self, slot: int, kind: int, offered: _Amounts) -> None:
        old = self.state_of[slot]
        free = tuple([f + n - o for f, n, o in zip(old.free, offered, old.offered, strict=True)])
        self._put(slot, old, (kind, free, offered))

    def _shift(self, slot: int, needs: Needs, times: int) -> NodeState:
        old = self.state_of[slot]
        free = list(old.free)
        for number, amount in needs:
            free[number] += times * amount
        return self._put(slot, old, (old.kind, tuple(free), old.offered))

    def _put(self, slot: int, old: NodeState, key: _Key) -> NodeState:
        new = self.states.get(key) or self._state(key)
        if new is old:
            return old
        old.count -= 1
        self.state_of[slot] = new
        self._enter(slot, new)
        self.log += (old, new)
        return new

    def _enter(self, slot: int, state: NodeState) -> None:
        """Count a node in the state that it is in now, and name it there."""
        state.count += 1
        heap = state._heap
        heappush(heap, (self.names[slot], slot))
        if len(heap) > 2 * state.count + _SPARE_NAMES:
            state._heap = [(self.names[each], each) for each in self.slots_in(state)]

    def first_in(self, state: NodeState) -> int:
        """Return the node of a state whose name is the first. O(1) amortised.

        By name and not by age, so that a scheduler that was restarted chooses as before.
        """
        heap, state_of, names = state._heap, self.state_of, self.names
        while state_of[heap[0][1]] is not state or names[heap[0][1]] != heap[0][0]:
            heappop(heap)
        return heap[0][1]

    def slots_in(self, state: NodeState) -> list[int]:
        """Return the nodes in a state, by name. O(n log n)."""
        names, state_of = self.names, self.state_of
        pairs = sorted({(n, s) for n, s in state._heap if state_of[s] is state and names[s] == n})
        return [slot for _name, slot in pairs]

    def first_of(self, states: Collection[NodeState], number: int) -> list[int]:
        """Return the first *number* nodes in some states, by name. O((states + number) log)."""
        if number == 1:
            return [min(map(self.first_in, states), key=self.names.__getitem__)]
        ordered = merge(*map(self._by_name, states))
        return [slot for _name, slot in islice(ordered, number)]

    def _by_name(self, state: NodeState) -> Iterator[tuple[NodeName, int]]:
        """Yield the nodes in a state, by name. O(log n) each, and what is left is not looked at."""
        heap, state_of, names, last = state._heap, self.state_of, self.names, -1
        ahead = [(heap[0], 0)]
        while ahead:
            (name, slot), at = heappop(ahead)
            if slot != last and state_of[slot] is state and names[slot] == name:
                last = slot
                yield name, slot
            for below in (2 * at + 1, 2 * at + 2):
                if below < len(heap):
                    heappush(ahead, (heap[below], below))

    def _forget_if_unused(self, slot: int) -> None:
        """Free the slot of a node that does not exist once no pod and no hold is known there."""
        state = self.state_of[slot]
        if slot not in self._kept and not any(state.free):
            name = self.names[slot]
            del self.slots[name]
            self.gains.pop(slot, None)
            self.names[slot] = NodeName("")
            state.count -= 1
            self._unused.append(slot)

    def _state(self, key: _Key) -> NodeState:
        found = self.states.get(key)
        if found is None:
            self._states_made += 1
            text = "" if key[0] == GONE else self._kind_texts[key[0]]
            found = self.states[key] = NodeState(self._states_made, key, text)
        return found

    def trim(self) -> None:
        """Cut the log if it is long, and forget states and kinds without nodes if they are many."""
        if len(self.log) > 8 * len(self.names) + _SPARE_LOG:
            half = len(self.log) // 2
            del self.log[:half]
            self.log_start += half
        if len(self.states) > len(self.names) + len(self.names) // 4 + _SPARE_STATES:
            self.states = {key: state for key, state in self.states.items() if state.count}
        if len(self.samples) > 2 * len(self.states) + _SPARE_KINDS:
            self._renumber()

    def _renew(self, key_of: Callable[[int, NodeState], _Key]) -> None:
        """Make all states anew; what was derived from the old ones is void."""
        old, self.states = self.state_of, {}
        self.state_of = []
        for slot, state in enumerate(old):
            new = self._state(key_of(slot, state))
            self.state_of.append(new)
            if self.names[slot]:
                self._enter(slot, new)
        self.log_start += len(self.log) + 1
        self.log.clear()

    def _kind(self, node: Node, signature: Hashable, marks: Marks) -> int:
        values = tuple([node.labels.get(key) for key in self._watched])
        return self._kind_of((signature, values, marks), node)

    def _kind_of(self, key: _KindKey, node: Node) -> int:
        """Return the number of a kind; *node* is one of it if it is new."""
        number = self._kinds.setdefault(key, len(self.samples))
        if number == len(self.samples):
            signature, values, marks = key
            self.plain.append(self._plains.setdefault((signature, values), len(self._plains)))
            self.samples.append(node)
            self.marks.append(marks)
            levels = self.domains.levels.topologies
            keys = {key for topology in levels for key in topology} - {HOST}
            empty = sum(not mark.tenant and mark.level in keys for mark in marks)
            self.empties.append(min(empty, MOST_EMPTIES))
            self._kind_keys.append(key)
            labels = sorted(zip(self._watched, values, strict=True))
            parts = (labels, node.taints, node.unschedulable, node.declared_features)
            # in an order that depends on no history
            self._kind_texts.append(repr((*parts, sorted(marks)) if marks else parts))
        return number

    def check(self) -> None:
        """Check I1 and I2, and the index of domains. O(nodes)."""
        listed: dict[NodeState, list[int]] = {}
        for slot, state in enumerate(self.state_of):
            if (state.kind == GONE) != (self.nodes[slot] is None):
                raise InternalError(f"{self.names[slot]} is of kind {state.kind}")
            if self.names[slot]:
                listed.setdefault(state, []).append(slot)
        for key, state in self.states.items():
            if state.key != key or state.count != len(listed.get(state, ())):
                raise InternalError(f"{state} is in fact {key} with {listed.get(state)}")
        for state, slots in listed.items():
            if self.states.get(state.key) is not state or sorted(self.slots_in(state)) != slots:
                raise InternalError(f"{state} does not list {slots}")
        if self.count != sum(node is not None for node in self.nodes):
            raise InternalError(f"{self.count} nodes are counted")
        self.domains.check()


_MOST_NEEDS: Final = 4096
_SPARE_LOG: Final = 2000
_SPARE_STATES: Final = 100
_SPARE_KINDS: Final = 1000
_SPARE_NAMES: Final = 32
_FEW: Final = 8
