"""KeptPodCounts: how many pods of some kind are in each domain, kept from decision to decision.

Theory of operation. Affinity between pods and spreading ask how many matching pods are in a domain:
on the nodes with one value of a label. To count them in each decision costs O(pods). So a count is
made once, when a plugin first asks for it. Then it follows each pod that is put on a node or taken
off it. That may be a bound or assumed pod, or one that the current decision plans or removes.

Four things make that cheap. Pods are filed under their labels, so that the first count of a matcher
with a label looks only at pods with that label. Matchers are filed under theirs, so that a pod that
is put on a node meets only the counts that it may belong to. For pods with equal labels these
counts are found once. Which nodes belong to which domain is shared by all counts of one label and
one ``NodeMatcher``. And a pod is filed only when the files are next read: most planned pods are
taken off again before that.

The other direction is *carried terms*: a pod may keep others away, or attract them, wherever it is.
How many pods carry a term is counted by domain too, and the terms are filed by the pods that they
are about.

Nothing of this is kept while no known pod asks for it or carries a term (``activate``, ``clear``).

Invariants (checked by ``_check``):
  I1  while it is active, each count is the number of matching pods that the nodes show, by the
      value of the label, on the nodes that its ``NodeMatcher`` accepts;
  I2  a carried term is known if a pod in one of its domains carries it, and counted like that.

Rules:
  R1  the oldest counts are dropped when there are too many; they are made anew when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

from gangsched.constraints.matchers import CarriedTerm, NodeMatcher, PodMatcher
from gangsched.cycle_state.matcher_index import MatcherIndex
from gangsched.errors import InternalError
from gangsched.model import Pod, PodUID
from gangsched.protocols import NodeView
from gangsched.resources import FrozenMap

__all__ = ["KeptDomainCounts", "LabelDomains", "KeptPodCounts"]

_MOST_COUNTS: Final = 4096
_MOST_DOMAINS: Final = 64
_MOST_REMEMBERED: Final = 4096
_EVERY: Final = ("", "")
"""The key under which every pod is filed; no label has an empty key."""

_Key: TypeAlias = tuple[PodMatcher, str, NodeMatcher | None]
_Carried: TypeAlias = Callable[[Pod], tuple[CarriedTerm, ...]]


@final
class LabelDomains:
    """The domains of one label among the nodes that a matcher accepts.

    Attributes:
        of: The value of each accepted node that has the label, by index.
        nodes: How many accepted nodes have each value.
    """

    __slots__ = ("nodes", "of")

    def __init__(
        self, by_index: Mapping[int, NodeView], key: str, matcher: NodeMatcher | None
    ) -> None:
        self.of: dict[int, str] = {}
        self.nodes: dict[str, int] = {}
        for index, info in by_index.items():
            node = info.node
            value = node.labels.get(key)
            if value is None:
                continue
            if matcher is None or matcher.matches(node.name, node.labels, node.taints):
                self.of[index] = value
                self.nodes[value] = self.nodes.get(value, 0) + 1


@final
class KeptDomainCounts:
    """How many matching pods are in each domain; see ``gangsched.protocols.DomainCounts``.

    Attributes:
        by_value: The number of matching pods in each domain with at least one.
    """

    __slots__ = ("_domains", "_levels", "by_value", "total")

    def __init__(self, domains: LabelDomains) -> None:
        self._domains = domains
        # how many domains have which number of pods, for the smallest number
        self._levels: dict[int, int] = {}
        self.by_value: dict[str, int] = {}
        self.total: int = 0

    def shift(self, index: int, change: int) -> None:
        """Count one pod more (1) or less (-1) on a node. O(1)."""
        value = self._domains.of.get(index)
        if value is None:
            return
        before = self.by_value.get(value, 0)
        after = before + change
        self.total += change
        levels = self._levels
        if before:
            levels[before] -= 1
            if not levels[before]:
                del levels[before]
        if after:
            self.by_value[value] = after
            levels[after] = levels.get(after, 0) + 1
        else:
            del self.by_value[value]

    def get(self, value: str) -> int:
        """Return the number of matching pods in a domain. O(1)."""
        return self.by_value.get(value, 0)

    def nodes(self, value: str) -> int:
        """Return the number of counted nodes in a domain. O(1)."""
        return self._domains.nodes.get(value, 0)

    @property
    def domains(self) -> int:
        """The number of domains. O(1)."""
        return len(self._domains.nodes)

    @property
    def least(self) -> int:
        """The smallest number of matching pods in a domain; 0 without domains. O(levels)."""
        if len(self.by_value) < len(self._domains.nodes):
            return 0
        return min(self._levels, default=0)


@final
class KeptPodCounts:
    """The counts of pods on nodes by domain; see ``gangsched.protocols.PodCounts``.

    Args:
        by_index: The nodes, by index.
        carried: Returns the terms that a pod carries.
    """

    __slots__ = (
        "_by_index",
        "_carried",
        "_carriers",
        "_counts",
        "_domains",
        "_filed",
        "_matchers",
        "_of_labels",
        "_terms",
        "_terms_of",
        "_unfiled",
        "is_active",
    )

    def __init__(self, by_index: Mapping[int, NodeView], carried: _Carried | None = None) -> None:
        self._by_index = by_index
        self._carried = carried
        self.is_active: bool = False
        self._domains: dict[tuple[str, NodeMatcher | None], LabelDomains] = {}
        self._counts: dict[_Key, KeptDomainCounts] = {}
        self._matchers: MatcherIndex[_Key] = MatcherIndex()
        self._carriers: dict[CarriedTerm, KeptDomainCounts] = {}
        self._terms: MatcherIndex[CarriedTerm] = MatcherIndex()
        # pods on nodes by label, and by the empty pair all of them: (pod, index of its node)
        self._filed: dict[tuple[str, str], dict[PodUID, tuple[Pod, int]]] = {}
        # what is still to be filed (1) or to be removed from the files (-1)
        self._unfiled: list[tuple[Pod, int, int]] = []
        # the counts that pods with some labels belong to, as long as no count comes or goes
        self._of_labels: dict[tuple[str, FrozenMap[str], bool], tuple[KeptDomainCounts, ...]] = {}
        self._terms_of: dict[PodUID, tuple[Pod, tuple[CarriedTerm, ...]]] = {}

    @property
    def has_terms(self) -> bool:
        """Whether a pod on a node carries a term."""
        return bool(self._carriers)

    # What plugins ask ----------------------------------------------------------------------

    def matching(
        self, pods: PodMatcher, key: str, nodes: NodeMatcher | None = None
    ) -> KeptDomainCounts:
        """Return how many matching pods are in each domain of the label *key*.

        Runtime complexity: O(1). The first time O(pods with a label of the matcher), and O(nodes)
        for a label and a node matcher that were not asked about before.
        """
        asked = (pods, key, nodes)
        found = self._counts.get(asked)
        if found is None:
            self.activate()
            found = KeptDomainCounts(self._domains_of(key, nodes))
            for pod, index in self._with_label_of(pods):
                if _counts(pods, pod):
                    found.shift(index, 1)
            if len(self._counts) >= _MOST_COUNTS:
                self._forget_oldest()
            self._counts[asked] = found
            self._matchers.add(pods, asked)
            self._of_labels.clear()
        return found

    def carried_about(self, pod: Pod) -> Iterator[tuple[CarriedTerm, KeptDomainCounts]]:
        """Iterate over the affinity terms of pods on nodes that may select *pod*, and their counts.

        The labels of its namespace are not looked at. A count says how many pods carry the term
        in each domain. Terms without a condition on labels are all yielded.

        Runtime complexity: O(labels of the pod + terms filed under them).
        """
        for term in self._terms.matching(pod):
            yield term, self._carriers[term]

    # What the node table tells ---------------------------------------------------------------

    def activate(self) -> None:
        """Begin to follow the pods on nodes. O(pods on nodes), O(1) if it does already."""
        if self.is_active:
            return
        self.is_active = True
        for index, info in self._by_index.items():
            for pod in info.pods:
                self.put(pod, index)

    def clear(self) -> None:
        """Forget everything, since no known pod asks for counts or carries terms. O(counts)."""
        self.is_active = False
        self._matchers, self._terms = MatcherIndex(), MatcherIndex()
        self._unfiled.clear()
        for kept in (self._domains, self._counts, self._carriers, self._filed):
            kept.clear()
        self._of_labels.clear()
        self._terms_of.clear()

    def put(self, pod: Pod, index: int, terms: tuple[CarriedTerm, ...] | None = None) -> None:
        """Count a pod that is on a node from now on. O(labels + counts that it may belong to).

        Args:
            pod: The pod.
            index: The index of the node.
            terms: The terms that it carries, if they are known. Those of its class are best: they
                are equal to its own, and hashed already.
        """
        if not self.is_active:
            return
        if terms is not None and self._carried is not None:
            self._remember(pod, terms)
        self._file(pod, index, 1)
        self._shift(pod, index, 1)
        if self._carried is not None:
            self._carry(pod, index)

    def _carry(self, pod: Pod, index: int) -> None:
        for term in self._carried_by(pod):
            counts = self._carriers.get(term)
            if counts is None:
                domains = self._domains_of(term.topology_key, None)
                if index not in domains.of:
                    continue
                counts = self._carriers[term] = KeptDomainCounts(domains)
                self._terms.add(term.pods, term)
            counts.shift(index, 1)

    def take(self, pod: Pod, index: int) -> None:
        """Count a pod that is not on a node any more. O(labels + counts)."""
        if not self.is_active:
            return
        self._file(pod, index, -1)
        self._shift(pod, index, -1)
        for term in self._carried_by(pod):
            counts = self._carriers.get(term)
            if counts is None:  # no node of a carrier has the label
                continue
            counts.shift(index, -1)
            if not counts.total:
                del self._carriers[term]
                self._terms.discard(term.pods, term)

    def nodes_changed(self) -> None:
        """Count anew when next asked, since a node was added or deleted, or its labels changed.

        Runtime complexity: O(counts + pods on nodes).
        """
        if not self.is_active:
            return
        self._counts.clear()
        self._matchers = MatcherIndex()
        self._domains.clear()
        if self._carried is None:
            return
        self._carriers.clear()
        self._terms = MatcherIndex()
        for pod, index in self._files().get(_EVERY, {}).values():
            self._carry(pod, index)

    def _shift(self, pod: Pod, index: int, change: int) -> None:
        if not self._counts:
            return
        key = (pod.namespace, pod.labels, pod.deleted_at is None)
        found = self._of_labels.get(key)
        if found is None:
            if len(self._of_labels) >= _MOST_REMEMBERED:
                self._of_labels.clear()
            asked = self._matchers.matching(pod)
            found = tuple([self._counts[each] for each in asked if _counts(each[0], pod)])
            self._of_labels[key] = found
        for counts in found:
            counts.shift(index, change)

    def _carried_by(self, pod: Pod) -> tuple[CarriedTerm, ...]:
        """Return the terms that a pod carries; it is planned, taken off and put on its node."""
        if self._carried is None:
            return ()
        known = self._terms_of.get(pod.uid)
        if known is None or known[0] is not pod:
            return self._remember(pod, self._carried(pod))
        return known[1]

    def _remember(self, pod: Pod, terms: tuple[CarriedTerm, ...]) -> tuple[CarriedTerm, ...]:
        if len(self._terms_of) >= _MOST_REMEMBERED:
            self._terms_of.clear()
        self._terms_of[pod.uid] = (pod, terms)
        return terms

    def _file(self, pod: Pod, index: int, change: int) -> None:
        """Note that a pod is to be filed, or removed from the files. O(1) amortised."""
        last = self._unfiled[-1] if self._unfiled else None
        if last is not None and last[0] is pod and last[1] == index and last[2] == -change:
            self._unfiled.pop()
            return
        self._unfiled.append((pod, index, change))
        if len(self._unfiled) > _MOST_REMEMBERED:
            self._files()

    def _files(self) -> dict[tuple[str, str], dict[PodUID, tuple[Pod, int]]]:
        """Return the pods on nodes by label. O(labels) for each pod that is not filed yet."""
        files = self._filed
        for pod, index, change in self._unfiled:
            for pair in (_EVERY, *pod.labels.items()):
                if change > 0:
                    files.setdefault(pair, {})[pod.uid] = (pod, index)
                    continue
                del files[pair][pod.uid]
                if not files[pair]:
                    del files[pair]
        self._unfiled.clear()
        return files

    def _domains_of(self, key: str, matcher: NodeMatcher | None) -> LabelDomains:
        found = self._domains.get((key, matcher))
        if found is None:
            if len(self._domains) >= _MOST_DOMAINS:
                # the counts refer to their domains themselves, and keep them
                del self._domains[next(iter(self._domains))]
            found = self._domains[key, matcher] = LabelDomains(self._by_index, key, matcher)
        return found

    def _with_label_of(self, pods: PodMatcher) -> Iterable[tuple[Pod, int]]:
        pairs = pods.pairs()
        files = self._files()
        found = [files.get(pair, {}) for pair in (_EVERY,) if pairs is None]
        found += [files.get(pair, {}) for pair in dict.fromkeys(pairs or ())]
        return [place for places in found for place in places.values()]

    def _forget_oldest(self) -> None:
        for asked in list(self._counts)[: _MOST_COUNTS // 2]:
            del self._counts[asked]
            self._matchers.discard(asked[0], asked)

    def _check(self) -> None:
        shown = {
            pod.uid: (pod, index) for index, info in self._by_index.items() for pod in info.pods
        }
        if not self.is_active:
            if self._counts or self._carriers or self._files() or self._domains:
                raise InternalError("pods are counted, and nothing asks for it")
            return
        if self._files().get(_EVERY, {}) != shown:
            raise InternalError("the counted pods and the pods on nodes differ")
        fresh = KeptPodCounts(self._by_index, self._carried)
        fresh.activate()
        for (pods, key, nodes), counts in self._counts.items():
            if counts.by_value != fresh.matching(pods, key, nodes).by_value:
                raise InternalError(f"pods of {pods} are miscounted by {key}")
        for term, counts in self._carriers.items():
            known = fresh._carriers.get(term)
            if counts.by_value != ({} if known is None else known.by_value):
                raise InternalError(f"carriers of {term} are miscounted")
        if self._carriers.keys() != fresh._carriers.keys():
            raise InternalError("a carried term is not known")


def _counts(matcher: PodMatcher, pod: Pod) -> bool:
    """Return whether a matcher counts a pod.

    That depends on its namespace, its labels and, with ``live_only``, its deletion timestamp.
    """
    if matcher.live_only and pod.deleted_at is not None:
        return False
    if pod.namespace not in matcher.namespaces and not matcher.is_everywhere:
        return False
    return matcher.selector.matches(pod.labels)
