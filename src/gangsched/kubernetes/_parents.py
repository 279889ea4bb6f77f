"""Groups of groups, as rows of ``kubectl gang``: they have no pods of their own.

Rules:
  R1  the pods of a group of groups are those of the groups below it;
  R2  its phase follows from the same minima as that of a group of pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from gangsched.membership import Membership
from gangsched.model import GroupKey, Pod, PodPhase
from gangsched.primitives.families import family_tree
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.registry import PodGroupRegistry
from gangsched.primitives.standing import least_needed, of_leaves, standing
from gangsched.status import PodGroupPhase

__all__ = ["groups_with_pods", "members_needed", "parent_tree", "phase_of_parent"]


def parent_tree(registry: PodGroupRegistry, key: GroupKey) -> SubGroup | None:
    """Return the tree of a group of groups; None for a group of pods. O(groups below it)."""
    spec = registry.spec(key)
    return None if spec is None or spec.min_groups is None else family_tree(registry, key)


def groups_with_pods(registry: PodGroupRegistry, key: GroupKey) -> list[GroupKey]:
    """Return the groups of which the pods are members of a group: itself, or those below it."""
    tree = parent_tree(registry, key)
    if tree is None:
        return [key]
    return list(dict.fromkeys(leaf.group for leaf in tree.leaves if leaf.group is not None))


def members_needed(tree: SubGroup) -> int:
    """Return how many members a tree needs to start, at the least."""
    return least_needed(tree, lambda sub: sub.least)


def phase_of_parent(
    tree: SubGroup, pods: Collection[Pod], membership: Callable[[Pod], Membership | None]
) -> PodGroupPhase:
    """Return the phase of a group of groups, given the pods below it. O(pods + sub groups)."""
    leaves = {(leaf.group, leaf.role): leaf.key for leaf in tree.leaves}

    def is_met(*phases: PodPhase) -> bool:
        counts = Counter[str]()
        for pod in _in(pods, phases):
            claim = membership(pod)
            if claim is not None:
                own = leaves.get((claim.group, claim.role))
                counts[own or leaves.get((claim.group, None), "")] += 1
        return standing(tree, of_leaves(counts)).is_met

    done, runs, failed = PodPhase.SUCCEEDED, PodPhase.RUNNING, PodPhase.FAILED
    if not is_met(*PodPhase):
        return PodGroupPhase.PENDING
    if is_met(done):
        return PodGroupPhase.FINISHED
    if is_met(done, runs):
        return PodGroupPhase.RUNNING
    return PodGroupPhase.FAILED if is_met(done, runs, failed) else PodGroupPhase.SCHEDULING


def _in(pods: Iterable[Pod], phases: Collection[PodPhase]) -> list[Pod]:
    return [pod for pod in pods if pod.phase in phases]
