"""Looking before anything is changed.

Rules:
  R1  what may raise in the middle of taking in a fact is asked before: the membership and the
      signature of every pod that the fact is about, and who is on every node that it touches;
  R2  each is asked once per call, so the answer that was looked at is the one that is used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import final

from attrs import field, frozen

from gangsched._core._counters import MemberState
from gangsched._core._registry import PodGroupInfo
from gangsched.errors import InvalidPodGroupError, PluginError
from gangsched.framework.runtime import signatures
from gangsched.framework.state.scheduler_state import Member, State
from gangsched.membership import Membership
from gangsched.model import NodeName, Pod, PodUID

__all__ = ["Seen", "close", "everything", "group", "look", "node", "pod"]


@final
@frozen
class Seen:
    """What a pod says of itself.

    Attributes:
        pod: The pod, as the cluster state shows it.
        claim: Its claim to be in a group; None for a regular pod, and where there is a problem.
        problem: What is malformed in its claim.
        signature: What it is evaluated by.
        labels: The keys of the labels that are read of nodes for it.
        reads_pods: Whether a plugin reads which pods are on nodes for it.
    """

    pod: Pod
    claim: Membership | None
    problem: InvalidPodGroupError | None = field(eq=False)
    signature: Hashable
    labels: frozenset[str]
    reads_pods: bool


def look(state: State, uid: PodUID) -> Seen | None:
    """Return what a pod says of itself; None when there is no such pod.

    Raises:
        PluginError: ``membership`` or a plugin's ``pod_signature`` raised.
    """
    if uid in state.seen:
        known: Seen | None = state.seen[uid]
        return known
    shown = state.cluster.pod(uid)
    seen = None if shown is None else _ask(state, shown)
    state.seen[uid] = seen
    return seen


def pod(state: State, uid: PodUID) -> None:
    """Look at a pod, and at whom it may let in by leaving its group."""
    seen, member = look(state, uid), state.members.get(uid)
    if seen is not None:
        node(state, seen.pod.node_name)
    if member is None:
        return
    node(state, member.pod.node_name)
    info = member.group
    if info is not None and _may_let_in(info, member, seen):
        for sibling in info.members:
            _pod_alone(state, sibling)


def node(state: State, name: NodeName | None) -> None:
    """Look at who is on a node."""
    if name is not None:
        state.nodes.look(name)


def group(state: State, members: Iterable[PodUID]) -> None:
    """Look at every member of a group."""
    for uid in members:
        _pod_alone(state, uid)


def everything(state: State) -> None:
    """Look at all that the cluster state shows, and at all that is known. O(pods + nodes)."""
    for shown in state.cluster.nodes():
        node(state, shown.name)
    for shown_pod in state.cluster.pods():
        _pod_alone(state, shown_pod.uid)
    for uid in state.members:
        _pod_alone(state, uid)


def close(state: State) -> None:
    """Forget what was looked at: it is so in this call, and no longer."""
    state.seen.clear()
    state.nodes.forget_looks()


def _pod_alone(state: State, uid: PodUID) -> None:
    seen, member = look(state, uid), state.members.get(uid)
    if seen is not None:
        node(state, seen.pod.node_name)
    if member is not None:
        node(state, member.pod.node_name)


def _may_let_in(info: PodGroupInfo, member: Member, seen: Seen | None) -> bool:
    """Say whether others may be welcome in a group once a member is not in it as it was."""
    if not info.members.count(MemberState.REFUSED):
        return False
    return seen is None or seen.pod is not member.pod


def _ask(state: State, shown: Pod) -> Seen:
    claim: Membership | None = None
    problem: InvalidPodGroupError | None = None
    try:
        claim = state.membership(shown)
    except InvalidPodGroupError as error:
        problem = error
    except Exception as error:
        raise _misbehaved(shown, f"raised {error!r}") from error
    if claim is not None and not isinstance(claim, Membership):
        raise _misbehaved(shown, f"returned {claim!r}")
    signature, labels = signatures.signature(state, shown), signatures.labels_read(state, shown)
    reads_pods = signatures.reads_pods(state, shown)
    return Seen(shown, claim, problem, signature, labels, reads_pods)


def _misbehaved(shown: Pod, problem: str) -> PluginError:
    return PluginError("membership", "membership", shown.key, problem)
