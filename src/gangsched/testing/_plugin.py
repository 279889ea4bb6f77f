"""``check_plugin``: checks the duties of a plugin that its types do not show.

Rules:
  R1  every point that the plugin has is called for every pod on every node;
  R2  a plugin with ``reserve`` is tried in two rounds: what it releases must be available again,
      and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations, product
from typing import Any, Final

from attrs import evolve, frozen

from gangsched.events import Bind
from gangsched.forking.copying import is_forkable
from gangsched.model import Node, NodeName, Pod
from gangsched.outcomes import EvictGroup, HoldGroup, RejectGroup, Skip, Unschedulable, Wait
from gangsched.profile import sort_keys
from gangsched.testing._asked import DECIDES, NOW, Asked, seen, short
from gangsched.testing._builders import make_node, make_pod
from gangsched.testing._order import check_less
from gangsched.testing._siblings import Siblings
from gangsched.testing._signed_alike import SignedAlike
from gangsched.testing._symmetry import Symmetry
from gangsched.testing._views import FakeEntity, FakeGroup, FakeNode, cycle, node_view

__all__ = ["check_plugin"]


def check_plugin(
    plugin: object,
    *,
    pods: Iterable[Pod] = (),
    nodes: Iterable[Node] = (),
    forkable: bool = False,
) -> None:
    """Check what the scheduler relies on in a plugin.

    - Its name is a non-empty string, and it has at least one point.
    - ``filter``, ``score``, ``queue_sort`` and the declarations (``pod_signature``,
      ``node_signature``, ``labels_read``, ``fitted``, ``reads_pods``) are pure: a second call
      returns the same, and the arguments are not changed.
    - Equal signatures have equal answers, also on a node that holds the pod itself. With
      ``signs_node_alone``, neither free capacity nor pods change the signature of a node. A node
      with too little of a fitted resource is refused.
    - The queue order is strict and total, and a score is from 0 to 100.
    - ``unreserve`` undoes ``reserve``. It is idempotent, and does nothing for a pod that was never
      reserved. Afterwards the same pods can reserve as before, and no others.
    - ``pod_ended`` undoes ``reserve`` of a pod that was bound, and returns True if ``reserve`` then
      accepts a pod that it had refused. It is not missing if ``reserve`` refuses more and more.
    - ``filter`` and ``score`` depend on the pods on nodes only for pods for which ``reads_pods``
      returns True, also where ``pre_filter`` counts them. ``add_pod`` and ``remove_pod`` keep what
      ``pre_filter`` counts. ``cluster_headroom`` is not 0 where ``filter`` accepts a pod. Up to
      eight other pods are on the nodes, so a quota of more is not checked.
    - Each answer is of a type that its point may return.

    Args:
        plugin: The plugin, fresh.
        pods: Pods that the plugin looks at; some plain pods are added.
        nodes: Nodes that it looks at; some plain nodes are added.
        forkable: Whether ``Scheduler.what_if`` has to accept the plugin; see
            ``gangsched.protocols.StateExtensions``.

    Raises:
        AssertionError: A check failed; the message names the plugin, the point and the arguments.
    """
    asked = Asked(plugin)
    asked.has_a_name()
    if forkable:
        problem = (
            "has attributes and no fork method, and is no frozen class of immutable values:"
            " Scheduler.what_if refuses it, see gangsched.protocols.StateExtensions"
        )
        assert is_forkable(plugin), f"{asked.name} {problem}"
    shown = [*_PODS, *pods]
    views = [view for node in (*_NODES, *nodes) for view in _emptier_and_fuller(node)]
    for group in (None, FakeGroup(unscheduled=3), FakeGroup(min_available=None)):
        tried = _Tried(asked, shown, views, group)
        tried.filters_and_scores()
        tried.answers_are_of_their_kind()
    tried = _Tried(asked, shown, views, FakeGroup(unscheduled=3))
    tried.keeps_what_it_says_of_itself()
    tried.orders()
    SignedAlike(asked, shown, views, FakeGroup(unscheduled=3)).check()
    Siblings(asked, shown, views, FakeGroup(unscheduled=3)).check()
    Symmetry(asked, shown, views, FakeGroup(unscheduled=3)).check()


_PODS: Final = (
    make_pod("small", cpu=1),
    make_pod("large", cpu=3, gpu=1),
    make_pod("nothing"),
    make_pod("member", group="g", min_available=3, cpu=1, priority=7),
    Pod(name="of-group", pod_group="g", requests={"cpu": 1}),
)
_NODES: Final = (make_node("a", cpu=4, gpu=2), make_node("b", cpu=1, labels={"zone": "z"}))


def _emptier_and_fuller(node: Node) -> tuple[FakeNode, FakeNode]:
    half = {name: f"{amount // 2}m" for name, amount in node.allocatable.items() if amount > 1}
    return node_view(node), node_view(node, used=half, pods=1)


@frozen
class _Tried:
    """A plugin, with pods, nodes and a group to try it with."""

    asked: Asked
    pods: Sequence[Pod]
    views: Sequence[FakeNode]
    group: FakeGroup | None

    # Pure -----------------------------------------------------------------------------------

    def filters_and_scores(self) -> None:
        for point, kinds in (("filter", DECIDES), ("score", (int,))):
            if self.asked.has(point):
                self._is_pure(point)
                for pod, view in self._pairs():
                    answer = self._on(point, pod, view)
                    self.asked.is_a(point, answer, kinds, pod, view)
                    if point == "score" and not self.asked.has("normalize_score"):
                        within = 0 <= answer <= 100
                        self.asked.expect(point, within, f"{answer} is not within 0 to 100")
        if self.asked.has("score") and self.asked.has("normalize_score"):
            self._normalizes()

    def _normalizes(self) -> None:
        """Hold ``normalize_score`` to one score from 0 to 100 for each node, equal for equals."""
        for pod in self.pods:
            raw = {view.node.name: self._on("score", pod, view) for view in self.views}
            made = self.asked.ask("normalize_score", self._cycle(), pod, dict(raw))
            for name, score in raw.items():
                within = name in made and type(made[name]) is int and 0 <= made[name] <= 100
                sentence = f"{made} has no int from 0 to 100 for node {name}"
                self.asked.expect("normalize_score", within, sentence)
                equals = {made[other] for other, same in raw.items() if same == score}
                sentence = f"nodes of raw score {score} have unequal scores"
                self.asked.expect("normalize_score", len(equals) == 1, sentence)

    def _is_pure(self, point: str) -> None:
        before = [seen(view) for view in self.views]
        first = [self._on(point, pod, view) for pod, view in self._pairs()]
        pairs = reversed(list(self._pairs()))
        second = list(reversed([self._on(point, pod, view) for pod, view in pairs]))
        third = [self._on(point, pod, view) for pod, view in self._pairs()]
        for (pod, view), one, *others in zip(self._pairs(), first, second, third, strict=True):
            for other in others:
                details = f"{one} at first, then {other}, for {short((pod, view))}"
                self.asked.expect(point, one == other, f"is not pure: {details}")
        for view, was in zip(self.views, before, strict=True):
            unchanged = seen(view) == was
            self.asked.expect(point, unchanged, f"is not pure: it changed {view.node.name}")

    def keeps_what_it_says_of_itself(self) -> None:
        """Compare signatures and fitted resources with ``filter`` and ``score``."""
        if self.asked.has("pod_signature"):
            self._is_signed_by_pod()
        if self.asked.has("node_signature"):
            self._is_declared_of_nodes()
            for pod in self.pods:
                self._is_signed_by_node(pod)
        for pod, view in self._pairs() if self.asked.has("filter") else ():
            if self.asked.has("fitted"):
                for resource in self.asked.twice("fitted", pod, of=tuple):
                    self._is_fitted(pod, view, resource)

    def _is_signed_by_pod(self) -> None:
        signed = [(pod, self.asked.twice("pod_signature", pod)) for pod in self.pods]
        for (pod, sign), (other, its) in combinations(signed, 2):
            for view in self.views if sign == its else ():
                self._agree("pod_signature", (pod, view), (other, view))

    def _is_declared_of_nodes(self) -> None:
        """Compare the signature of each node with that of the same node, full and crowded."""
        for view in self.views if getattr(self.asked.plugin, "signs_node_alone", False) else ():
            less = dict.fromkeys(view.free, 0)
            taken = evolve(view, free=less, pod_count=view.pod_count + 1, pods=tuple(self.pods))
            one, other = (self.asked.twice("node_signature", each) for each in (view, taken))
            sentence = f"is {one!r}, then {other!r} with less capacity, for {view.node.name}"
            self.asked.expect("node_signature", one == other, sentence)

    def _is_signed_by_node(self, pod: Pod) -> None:
        signed = [(view, self._sign(pod, view)) for view in self._twins()]
        for (view, sign), (other, its) in combinations(signed, 2):
            if sign == its:
                self._agree("node_signature", (pod, view), (pod, other))

    def _is_fitted(self, pod: Pod, view: FakeNode, resource: str) -> None:
        need = pod.requests.amount(resource)
        if need > 0:
            less = evolve(view, free={**view.free, resource: need - 1})
            refused = isinstance(self._on("filter", pod, less), Unschedulable)
            sentence = f"names {resource}, and filter lets {short((pod, less))}"
            self.asked.expect("fitted", refused, sentence)

    def _twins(self) -> list[FakeNode]:
        """Return each node twice, the second time with another name and another label."""
        others: list[FakeNode] = []
        for view in self.views:
            name = NodeName(f"{view.node.name}'")
            others.append(evolve(view, node=evolve(view.node, name=name, labels={"x": "y"})))
        return [*self.views, *others]

    def _sign(self, pod: Pod, view: FakeNode) -> Hashable:
        read: tuple[str, ...] = ()
        if self.asked.has("labels_read"):
            read = self.asked.twice("labels_read", pod, of=tuple)
        labels = tuple(view.node.labels.get(name) for name in read)
        return self.asked.twice("node_signature", view), labels

    def _agree(self, by: str, one: tuple[Pod, FakeNode], other: tuple[Pod, FakeNode]) -> None:
        for point in ("filter", "score"):
            if self.asked.has(point):
                first, second = self._on(point, *one), self._on(point, *other)
                details = f"{short(one)} has {first}, {short(other)} has {second}"
                self.asked.expect(by, first == second, f"is equal, and {point} differs: {details}")

    # Order ----------------------------------------------------------------------------------

    def orders(self) -> None:
        if not self.asked.has("queue_sort"):
            return
        entities = [
            FakeEntity(pod=pod, seq=n, queued_at=float(n // 2), priority=pod.priority, group=group)
            for n, (pod, group) in enumerate(product(self.pods, (None, self.group)))
        ]
        of_group = [e for e in entities if e.group is not None]
        for n, entity in enumerate(of_group):
            entity.group = evolve(entity.group or FakeGroup(), uid=n)
        for entity in entities:
            rank = self.asked.twice("queue_sort", entity)
            comparable = sort_keys.comparable(rank) is not None
            sentence = f"{rank!r} is no tuple of numbers and strings"
            self.asked.expect("queue_sort", comparable, sentence)

        def less(a: FakeEntity, b: FakeEntity) -> bool:
            return bool(self.asked.ask("queue_sort", a) < self.asked.ask("queue_sort", b))

        try:
            check_less(less, entities)
        except AssertionError as error:
            raise AssertionError(f"{self.asked.name}.queue_sort: {error}") from None

    # Kinds ----------------------------------------------------------------------------------

    def answers_are_of_their_kind(self) -> None:
        verdicts = (*DECIDES, RejectGroup, HoldGroup, EvictGroup)
        for pod, view in self._pairs():
            state, name = self._cycle(), view.node.name
            calls: tuple[tuple[str, tuple[Any, ...], tuple[type, ...]], ...] = (
                ("pre_enqueue", (pod, self.group), DECIDES),
                ("pre_filter", (state, pod), DECIDES),
                ("post_filter", (state, pod, "nothing fits"), verdicts),
                ("pre_score", (state, pod, tuple(self.views)), DECIDES),
                ("permit", (state, pod, name), (*DECIDES, Wait)),
                ("pre_bind", (state, pod, name), DECIDES),
                ("bind", (pod, name, 3), (Bind, Skip)),
                ("post_bind", (pod, name), (type(None),)),
            )
            for point, args, kinds in calls:
                if self.asked.has(point):
                    answer = self.asked.ask(point, *args, now=NOW)
                    self.asked.is_a(point, answer, kinds, pod, view)
                    if isinstance(answer, Bind):
                        right = answer == Bind(pod.uid, name, 3)
                        self.asked.expect(
                            point, right, f"{answer} for {pod.uid}, {name}, attempt 3"
                        )

    # Inside ---------------------------------------------------------------------------------

    def _pairs(self) -> Iterable[tuple[Pod, FakeNode]]:
        return product(self.pods, self.views)

    def _cycle(self) -> Any:
        return cycle(self.group, *self.views)

    def _on(self, point: str, pod: Pod, view: FakeNode) -> Any:
        state = cycle(self.group, *self.views, view)
        if self.asked.has("pre_filter"):
            self.asked.ask("pre_filter", state, pod, now=NOW)
        return self.asked.ask(point, state, pod, view)
