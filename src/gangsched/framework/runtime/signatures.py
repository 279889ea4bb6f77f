"""What plugins say of themselves: which part of a pod and of a node they read.

Rules:
  R1  pods of one signature are judged alike, and so are nodes of one signature;
  R2  what one plugin does not say makes every pod, or every node, like no other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gangsched.errors import GangschedError, PluginError
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.scheduler_state import State
from gangsched.model import Pod
from gangsched.protocols import NodeView

__all__ = ["fitted", "labels_read", "node_signature", "reads_pods", "signature"]


def signature(state: State, pod: Pod) -> Hashable:
    """Return the part of a pod that filters and scores depend on; its UID when unknown."""
    if not state.profile.signed:
        return pod.uid
    parts: list[Hashable] = []
    for plugin in state.profile.signers:
        part = extension_points.call(plugin, "pod_signature", pod, Hashable, pod)
        try:
            hash(part)
        except TypeError as error:
            problem = f"returned {part!r}, which has no hash"
            raise PluginError(
                extension_points.name_of(plugin), "pod_signature", pod.key, problem
            ) from error
        parts.append(part)
    return tuple(parts)


def labels_read(state: State, pod: Pod) -> frozenset[str]:
    """Return which labels of nodes the plugins read for pods like *pod*."""
    keys: set[str] = set()
    for plugin in state.profile.label_readers:
        for key in extension_points.call(plugin, "labels_read", pod, Iterable, pod):
            if not isinstance(key, str):
                raise PluginError(
                    extension_points.name_of(plugin), "labels_read", pod.key, f"returned {key!r}"
                )
            keys.add(key)
    return frozenset(keys)


def reads_pods(state: State, pod: Pod) -> bool:
    """Return whether a filter or score plugin reads, for *pod*, which pods are on nodes."""
    answers = [
        extension_points.call(plugin, "reads_pods", pod, bool, pod)
        for plugin in state.profile.pod_readers
    ]
    return any(answers)


def fitted(state: State, pod: Pod) -> frozenset[str]:
    """Return the resources that plugins fit pods like *pod* to."""
    names: set[str] = set()
    for plugin in state.profile.fittings:
        names.update(extension_points.call(plugin, "fitted", pod, Iterable, pod))
    return frozenset(names)


def node_signature(
    state: State, view: NodeView, keys: Iterable[str] | None = None
) -> tuple[Hashable, ...] | None:
    """Return what plugins read of a node; None when one does not say, or failed to.

    Args:
        state: The scheduler's memory.
        view: The node.
        keys: Which labels are read; None for those that are read now.
    """
    signers = state.profile.node_signers
    if not signers:
        return None
    labels = view.node.labels
    names = state.labels.keys if keys is None else keys
    read = tuple((key, labels.get(key)) for key in names)
    try:
        parts: tuple[Hashable, ...] = tuple(plugin.node_signature(view) for plugin in signers)
        hash(parts)
    except Exception:
        _blame_signer(state, view)
        return None
    return (*parts, read)


def _blame_signer(state: State, view: NodeView) -> None:
    """Ask again, one after the other, to name who failed to say what it reads of a node."""
    for plugin in state.profile.node_signers:
        try:
            part = extension_points.call(plugin, "node_signature", view.node, Hashable, view)
        except GangschedError as error:
            state.deferred.append(error)
            return
        try:
            hash(part)
        except TypeError as error:
            problem = f"returned {part!r}, which has no hash"
            name = str(view.node.name)
            failed = PluginError(extension_points.name_of(plugin), "node_signature", name, problem)
            failed.__cause__ = error
            state.deferred.append(failed)
            return
