"""PodClass: an equivalence class of pods, evaluated once for each class of nodes.

Pods with equal signatures get equal answers from every filter and score plugin. So what plugins
say of such pods is kept here, and what they say of nodes in ``judgements``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, final

from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.framework.nodes.judgements import Judgements
from gangsched.model import Pod

__all__ = ["PodClass"]


@final
class PodClass:
    """Pods with one signature, and what plugins say of them.

    Attributes:
        signature: The signature.
        sample: One of these pods.
        labels: The keys of the node labels that plugins read for these pods.
        reads_pods: Whether a plugin reads, for these pods, which pods are on nodes. Such plugins
            are left out of the judgements here, which are then an upper bound; see
            ``gangsched.framework.runtime.pod_readers``.
        watches_pods: Whether pods of this class depend on other pods on nodes, or carry terms about
            them.
        carried: The terms that such a pod carries to its node; see ``PodsAffected``.
        selected: The pods on nodes that the answers for such a pod depend on, by labels; see
            ``PodsSelected``.
        filters: The filter plugins that are asked about classes of nodes for these pods; None
            before the first question.
        objects: The classes of objects that plugins read for these pods.
        asked: By extension point, the plugins that have to do with these pods;
            see ``gangsched.protocols.IgnoresPods``.
        users: The number of known pods of this class.
        pending: How many of them are not bound yet. Only while there is one, nodes are told apart
            by ``labels``, and the judgements are used.
        judgements: The answers for all nodes; like classes share them.
        fitted: What a node must have free at least to take such a pod; None if it is not known.
        askings: By how many such pods an entity needs and has, what it asks for; see
            ``gangsched.framework.queueing.equivalence_class``.
    """

    __slots__ = (
        "asked",
        "askings",
        "carried",
        "filters",
        "fitted",
        "judgements",
        "labels",
        "objects",
        "pending",
        "reads_pods",
        "sample",
        "selected",
        "signature",
        "users",
        "watches_pods",
    )

    def __init__(
        self,
        signature: Hashable,
        sample: Pod,
        labels: frozenset[str] = frozenset(),
        *,
        reads_pods: bool = False,
        watches_pods: bool = False,
        carried: tuple[CarriedTerm, ...] = (),
        selected: tuple[PodMatcher, ...] = (),
        objects: frozenset[type[Any]] = frozenset(),
    ) -> None:
        self.signature: Hashable = signature
        self.sample: Pod = sample
        self.labels: frozenset[str] = labels
        self.reads_pods: bool = reads_pods
        self.watches_pods: bool = watches_pods or bool(carried)
        self.carried: tuple[CarriedTerm, ...] = carried
        self.selected: tuple[PodMatcher, ...] = selected
        self.filters: tuple[Any, ...] | None = None
        self.objects: frozenset[type[Any]] = objects
        self.users: int = 0
        self.pending: int = 0
        self.fitted: tuple[tuple[str, int], ...] | None = None
        self.askings: dict[tuple[int, int], Any] = {}
        self.asked: dict[str, tuple[Any, ...]] = {}
        self.judgements: Judgements = Judgements(sample.requests)

    def share(self, judgements: Judgements) -> None:
        """Use the judgements of a class for which every judge gives the same answers. O(1)."""
        judgements.sharing += 1
        self.judgements = judgements
