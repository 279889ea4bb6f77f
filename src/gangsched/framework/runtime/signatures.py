"""Ask plugins which part of a pod and of a node they read.

Equal signatures make an equivalence class: the filters and scores are computed once for the class.
A pod whose plugins do not all give a signature is evaluated by itself, and so is a node.

Rules:
  R1  pods of one signature get the same answers, and so do nodes of one signature;
  R2  if one plugin gives no signature, every pod, or every node, is a class of its own. Such a pod
      has another signature as soon as anything changes that a plugin may read, so what was
      remembered of it is dropped as with any other signature;
  R3  the signature of a pod is read before the state changes, and an error is raised. The signature
      of a node is read while nodes change, so its error is deferred, and the node stands alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import attrgetter
from typing import Any, Final, final

from attrs import field, fields, frozen

from gangsched import _plugin_calls as calls
from gangsched.constraints.matchers import CarriedTerm, PodMatcher
from gangsched.errors import GangschedError
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pod_classes import PodClasses
from gangsched.framework.state.settings import Settings
from gangsched.model import Node, Pod, PodUID
from gangsched.profile import Profile
from gangsched.profile.signing import Signing
from gangsched.protocols import NodeView

__all__ = [
    "carried",
    "fitted",
    "labels_read",
    "node_signature",
    "node_signature_after",
    "objects_read",
    "pods_read",
    "reads_pods",
    "selected",
    "signature",
    "watches_pods",
    "within_cycle",
]

_NO_OBJECTS: Final[frozenset[type[Any]]] = frozenset()


# what changes while a pod is gated, bound and run; no plugin places it by that
_STATUS: Final = frozenset({"node_name", "phase", "deleted_at", "scheduling_gates"})
_spec: Final = attrgetter(*(each.name for each in fields(Pod) if each.name not in _STATUS))


@final
@frozen
class _AloneInItsClass:
    """The signature of a pod if a plugin does not say what it reads: all but the status."""

    uid: PodUID
    pod: Pod = field(eq=_spec, hash=False)


def signature(settings: Settings, pod: Pod) -> Hashable:
    """Return the part of a pod that filters and scores read; all of it if a plugin does not say.

    Raises:
        PluginError: A plugin raised, or returned a value that cannot be hashed.
    """
    if not settings.profile.signed:
        return _AloneInItsClass(pod.uid, pod)
    try:  # with every pod event, so all plugins at once
        parts = _parts(settings.profile.signing, pod)
        hash(parts)
    except Exception:
        # one by one, to name the plugin that failed
        return _signature_by_plugin(settings, pod)
    return parts


def within_cycle(settings: Settings, pod: Pod) -> Hashable:
    """Return the part of a pod that plugins read in one view of the nodes; its UID if not known.

    Pods with equal parts get equal answers there, even if scores are normalized in each cycle. If a
    plugin raises, its UID is returned, too: the pod is evaluated by itself. O(plugins).
    """
    try:
        parts = tuple([signs(pod) for signs in settings.profile.signs_in_cycle])
        hash(parts)
    except Exception:
        return pod.uid
    return parts or pod.uid


def _parts(signing: Signing, pod: Pod) -> tuple[Hashable, ...]:
    """Return what each plugin reads of a pod. O(plugins that must be asked)."""
    if signing.read is None or signing.read(pod) != signing.unset:
        return tuple([plugin.pod_signature(pod) for plugin in signing.signers])
    parts = list(signing.blank)
    for n, plugin in signing.asked:
        parts[n] = plugin.pod_signature(pod)
    return tuple(parts)


def _signature_by_plugin(settings: Settings, pod: Pod) -> tuple[Hashable, ...]:
    return tuple(
        _hashable(plugin, "pod_signature", pod, pod) for plugin in settings.profile.signers
    )


def labels_read(settings: Settings, pod: Pod) -> frozenset[str]:
    """Return the keys of the node labels that plugins read for pods like *pod*.

    Raises:
        PluginError: A plugin raised, or returned anything but strings.
    """
    keys: set[str] = set()
    for plugin in settings.profile.label_readers:
        try:  # with every pod event, and most plugins read no label for most pods
            if plugin.labels_read(pod) == ():
                continue
        except Exception:
            pass  # asked again, to name the plugin
        keys.update(calls.call_for_names(plugin, "labels_read", pod, pod))
    return frozenset(keys)


def reads_pods(settings: Settings, pod: Pod) -> bool:
    """Return whether a filter or score plugin evaluates nodes one by one for *pod*.

    Raises:
        PluginError: A plugin raised, or returned anything but a bool.
    """
    return _any_reads(settings.profile.pod_readers, pod)


def watches_pods(settings: Settings, pod: Pod) -> bool:
    """Return whether the answers for *pod* depend on which pods are on nodes.

    Raises:
        PluginError: A plugin raised, or returned anything but a bool.
    """
    return _any_reads(settings.profile.pod_watchers, pod)


def _any_reads(plugins: Iterable[Any], pod: Pod) -> bool:
    # all are asked, so that an answer of a wrong type is found
    found = False
    for plugin in plugins:
        try:
            answer: object = plugin.reads_pods(pod)
        except Exception as error:
            raise calls.raised(plugin, "reads_pods", pod, error) from error
        if answer is True:
            found = True
        elif answer is not False:
            raise calls.returned(plugin, "reads_pods", pod, answer)
    return found


def pods_read(
    settings: Settings, pod: Pod
) -> tuple[bool, bool, tuple[CarriedTerm, ...], tuple[PodMatcher, ...]]:
    """Return ``reads_pods``, ``watches_pods``, ``carried`` and ``selected`` of a pod.

    Raises:
        PluginError: A plugin raised, or returned what it must not.
    """
    if not reads_pods(settings, pod):
        # a pod that carries terms is one for which plugins read pods; see PodsAffected
        return False, False, (), ()
    profile = settings.profile
    return True, watches_pods(settings, pod), carried(profile, pod), selected(profile, pod)


def carried(profile: Profile, pod: Pod) -> tuple[CarriedTerm, ...]:
    """Return the terms that a pod carries to its node; empty for most pods.

    Raises:
        PluginError: A plugin raised, or returned anything but terms.
    """
    found: tuple[CarriedTerm, ...] = ()
    for plugin in profile.affecting:
        try:
            terms = plugin.pods_affected(pod)
            if terms:
                found = (*found, *terms)
        except Exception as error:
            raise calls.raised(plugin, "pods_affected", pod, error) from error
        if not all(isinstance(term, CarriedTerm) for term in found):
            raise calls.returned(plugin, "pods_affected", pod, terms)
    return found


def selected(profile: Profile, pod: Pod) -> tuple[PodMatcher, ...]:
    """Return the pods on nodes that the answers for a pod depend on, by labels; each once.

    Raises:
        PluginError: A plugin raised, or returned anything but matchers.
    """
    found: dict[PodMatcher, None] = {}
    for plugin in profile.selecting:
        try:
            given = tuple(plugin.pods_selected(pod))
        except Exception as error:
            raise calls.raised(plugin, "pods_selected", pod, error) from error
        if not all(isinstance(one, PodMatcher) for one in given):
            raise calls.returned(plugin, "pods_selected", pod, given)
        found.update(dict.fromkeys(given))
    return tuple(found)


def objects_read(settings: Settings, pod: Pod) -> frozenset[type[Any]]:
    """Return the classes of objects that plugins read for pods like *pod*.

    Raises:
        PluginError: A plugin raised, or returned anything but classes of objects.
    """
    found: set[type[Any]] = set()
    for plugin in settings.profile.object_readers:
        found.update(calls.call_for_kinds(plugin, "objects_read", pod, pod))
    return frozenset(found) if found else _NO_OBJECTS


def fitted(settings: Settings, pod: Pod) -> frozenset[str]:
    """Return the resources of which a node must have free what *pod* requests.

    Raises:
        PluginError: A plugin raised, or returned anything but strings.
    """
    names: set[str] = set()
    for plugin in settings.profile.fittings:
        names.update(calls.call_for_names(plugin, "fitted", pod, pod))
    return frozenset(names)


def node_signature(
    settings: Settings,
    pod_classes: PodClasses,
    call: CurrentCall,
    view: NodeView,
    keys: Iterable[str] | None = None,
) -> tuple[Hashable, ...] | None:
    """Return what plugins read of a node; None if a plugin does not say, or failed.

    Args:
        settings: What the caller set.
        pod_classes: The equivalence classes of pods.
        call: What the current call gathers.
        view: The node.
        keys: The keys of the labels that are read; None for those that are read at present.
    """
    signers = settings.profile.node_signers
    if not signers:
        return None
    labels = view.node.labels
    names = pod_classes.labels.keys if keys is None else keys
    read = tuple([(key, labels.get(key)) for key in names])
    try:  # with every change of a node
        parts: tuple[Hashable, ...] = (*[plugin.node_signature(view) for plugin in signers], read)
        hash(parts)
    except Exception:
        _defer_signing_error(settings, call, view)
        return None
    return parts


def node_signature_after(
    settings: Settings,
    pod_classes: PodClasses,
    call: CurrentCall,
    view: NodeView,
    before: tuple[Hashable, ...],
) -> tuple[Hashable, ...] | None:
    """Return the signature of a node that has taken or released a pod; see ``node_signature``.

    Args:
        settings: What the caller set.
        pod_classes: The equivalence classes of pods.
        call: What the current call gathers.
        view: The node.
        before: Its signature before. Plugins that sign the node alone are not asked again.
    """
    parts = list(before)
    labels = view.node.labels
    try:
        for n, plugin in settings.profile.signers_of_capacity:
            parts[n] = plugin.node_signature(view)
        parts[-1] = tuple([(key, labels.get(key)) for key in pod_classes.labels.keys])
        found = tuple(parts)
        hash(found)
    except Exception:
        _defer_signing_error(settings, call, view)
        return None
    return found


def _defer_signing_error(settings: Settings, call: CurrentCall, view: NodeView) -> None:
    """Ask the plugins again one by one, to name the plugin that failed."""
    for plugin in settings.profile.node_signers:
        try:
            _hashable(plugin, "node_signature", view.node, view)
        except GangschedError as error:
            call.deferred.append(error)
            return


def _hashable(plugin: Any, point: str, about: Pod | Node, *args: Any) -> Hashable:
    part: Hashable = calls.call(plugin, point, about, object, *args)
    try:
        hash(part)
    except Exception as error:
        raise calls.returned(plugin, point, about, part) from error
    return part
