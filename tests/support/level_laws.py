"""A judge of levels: what a decision may not break, read from the cluster at each bind.

Rules:
  R1  a member comes to a domain of its gang, or of its slice, that has a member; the first ones of
      a call share one. So what ran before, and was moved when a node got another label, is excused;
  R2  a member that is apart comes to no domain that another member, or another slice, is in;
  R3  nobody comes to a domain where a gang is that has it for itself, and such a gang to none where
      somebody else is;
  R4  a member that is being bound by an earlier topology than that of now is not looked at;
  R5  a member that waited on its node came there before, and is not looked at when it is bound;
  R6  while events are delayed nothing is checked: the scheduler decides by what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from gangsched import Bind, Effect, Pod, PodGroup, PodUID, Topology
from support.account import claim_of
from support.driver import Driver

__all__ = ["HOST", "LEVELS", "LevelDriver"]

HOST = "kubernetes.io/hostname"
LEVELS = ("zone", "rack", HOST)
_NUMBER = "batch.kubernetes.io/job-completion-index"
Domain = tuple[str, ...] | None


@define(eq=False)
class LevelDriver(Driver):
    """A driver whose scheduler knows levels."""

    stated: dict[PodUID, Topology | None] = field(factory=dict)
    waited: set[PodUID] = field(factory=set)

    def _took(self, call: str, effects: tuple[Effect, ...]) -> None:
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        if not self.untold:
            self._judge(binds)
        else:
            self.stated.update(dict.fromkeys([bind.uid for bind in binds]))
        self.waited = {each.uid for each in self.scheduler.waiting}
        super()._took(call, effects)

    def _judge(self, binds: Iterable[Bind]) -> None:
        on = {pod.uid: str(pod.node_name) for pod in self.cluster.pods() if _runs(pod)}
        for bind in self.under_way:
            pod = self.cluster.pod(bind.uid)
            if pod is not None and self._topology(pod) == self.stated.get(bind.uid):
                on[bind.uid] = str(bind.node)
        on = {uid: name for uid, name in on.items() if uid not in self.dying}
        new = {bind.uid: str(bind.node) for bind in binds}
        for uid in new:
            pod = self.cluster.pod(uid)
            if pod is not None and uid not in self.waited:
                self.stated[uid] = self._topology(pod)
                self._judge_one(pod, on, new)

    def _judge_one(self, pod: Pod, before: Mapping[PodUID, str], new: Mapping[PodUID, str]) -> None:
        on = {**before, **new}
        spec, name = self._spec(pod), on[pod.uid]
        mine = [each for each in self._of(pod) if each.uid in on and each.uid != pod.uid]
        for other in on:
            self._is_alone(pod, spec, on, other)
        topology = None if spec is None else spec.topology
        if spec is None or topology is None or spec.roles:
            return
        if topology.key is not None and topology.required:
            self._shares(topology.key, name, mine, before, on, f"{pod.uid} of {spec}")
        for level, size in topology.slices:
            if (own := _slice(pod, spec, size)) is not None:
                part = [each for each in mine if _slice(each, spec, size) == own]
                self._shares(level, name, part, before, on, f"slice of {pod.uid} of {spec}")
        if topology.apart is not None:
            self._is_apart(topology, spec, pod, mine, on)

    def _shares(
        self,
        level: str,
        name: str,
        others: Iterable[Pod],
        before: Mapping[PodUID, str],
        on: Mapping[PodUID, str],
        what: str,
    ) -> None:
        """R1."""
        ran = {self._domain(before[each.uid], level) for each in others if each.uid in before}
        came = {self._domain(on[each.uid], level) for each in others if each.uid not in before}
        mine = self._domain(name, level)
        is_fine = mine is not None and (mine in ran if ran else came <= {mine})
        assert is_fine, f"{what} comes to {mine} of {level}, beside {ran} and {came}"

    def _is_apart(
        self,
        topology: Topology,
        spec: PodGroup,
        pod: Pod,
        mine: Iterable[Pod],
        on: Mapping[PodUID, str],
    ) -> None:
        """R2."""
        level = topology.apart
        assert level is not None
        size = topology.slices[0][1] if topology.slices else 0
        part = _slice(pod, spec, size) if size else None
        if size and part is None:
            return
        domain = self._domain(on[pod.uid], level)
        same = {
            self._domain(on[e.uid], level) for e in mine if size and _slice(e, spec, size) == part
        }
        if domain in same:
            return
        for each in mine:
            theirs = _slice(each, spec, size) if size else None
            if size and theirs in (None, part):
                continue
            where = self._domain(on[each.uid], level)
            assert domain != where, f"{pod.uid} and {each.uid} of {spec} share {level} {where}"
        assert domain is not None, f"{pod.uid} of {spec} is in no {level}"

    def _is_alone(
        self, pod: Pod, spec: PodGroup | None, on: Mapping[PodUID, str], uid: PodUID
    ) -> None:
        """R3."""
        level = spec.topology.exclusive if spec is not None and spec.topology is not None else None
        domain = None if level is None else self._domain(on[pod.uid], level)
        assert level is None or domain is not None, f"{pod.uid} of {spec} is in no {level}"
        other = self.cluster.pod(uid)
        if other is None or _key(other) == _key(pod) is not None:
            return
        theirs = self._spec(other)
        if spec is not None and theirs is not None and theirs.key in spec.bundle:
            return
        if domain is not None:
            near = self._domain(on[uid], level or "")
            assert near != domain, f"{pod.uid} of {spec} comes to {other} in {domain}"
        if theirs is not None and theirs.topology is not None and theirs.topology.exclusive:
            level = theirs.topology.exclusive
            where = self._domain(on[uid], level)
            is_near = where is not None and self._domain(on[pod.uid], level) == where
            assert not is_near, f"{pod.uid} comes to {where}, which {theirs} has for itself"

    def _spec(self, pod: Pod) -> PodGroup | None:
        claim = claim_of(pod)
        return None if claim is None else self.cluster.pod_group(claim[0])

    def _topology(self, pod: Pod) -> Topology | None:
        spec = self._spec(pod)
        return None if spec is None else spec.topology

    def _of(self, pod: Pod) -> list[Pod]:
        return [each for each in self.cluster.pods() if _key(each) == _key(pod) is not None]

    def _domain(self, name: str, level: str) -> Domain:
        node = next((each for each in self.cluster.nodes() if each.name == name), None)
        if node is None:
            return None
        if level == HOST:
            return (name,)
        keys = LEVELS[: LEVELS.index(level) + 1]
        return tuple(node.labels[k] for k in keys) if all(k in node.labels for k in keys) else None


def _key(pod: Pod) -> str | None:
    claim = claim_of(pod)
    return None if claim is None else claim[0]


def _runs(pod: Pod) -> bool:
    return pod.node_name is not None and not pod.is_finished and pod.deleted_at is None


def _number(pod: Pod) -> int | None:
    return int(pod.labels[_NUMBER]) if _NUMBER in pod.labels else None


def _slice(pod: Pod, spec: PodGroup, size: int) -> int | None:
    number = _number(pod)
    return None if number is None or number >= spec.min_available else number // size
