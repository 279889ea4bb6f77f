"""Which plugins must be asked for the signature of a pod, or again for that of a node.

Most pods state none of the constraints that most plugins are about. A plugin that declares which
attributes of a pod it signs need not be asked about a pod that sets none of them. So the signature
of a plain pod costs the look-up of these attributes, and the call of the few other plugins.

Where no two nodes are alike, each pod that is placed makes a signature that was never met. Most
plugins read only what pods do not change, so they are asked once for a node.

Rules:
  R1  an attribute is set if it differs from its default;
  R2  a declaration counts only for the ``pod_signature`` or ``node_signature`` that it was written
      for: if a subclass overrides that method alone, the subclass has declared nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, cast, final

from attrs import fields

from gangsched.errors import ProfileError
from gangsched.model import Pod
from gangsched.protocols import NodeSignature, PodSignature

__all__ = [
    "Signing",
    "evaluates_nodes",
    "signers_of_capacity",
    "signs_allocatable",
    "signs_in_cycle",
]

_PLAIN: Final = Pod(name="plain")
_DEFAULTS: Final[dict[str, Any]] = {
    each.name: getattr(_PLAIN, each.name)
    for each in fields(Pod)
    if each.name not in ("name", "uid")
}
"""The attributes of pods that have a default, which is the same for all pods."""


@final
class Signing:
    """The plugins that sign pods.

    Args:
        signers: The plugins, each with ``pod_signature``.

    Attributes:
        signers: The same.
        read: Returns the declared attributes of a pod; None if no plugin declares any.
        unset: What it returns for a pod that sets none of them.
        asked: The plugins that are asked about such a pod, too, each with its position.
        blank: The answers of the others.

    Raises:
        ProfileError: A plugin declares an attribute that a pod does not have.
    """

    __slots__ = ("asked", "blank", "read", "signers", "unset")

    def __init__(self, signers: Sequence[PodSignature]) -> None:
        self.signers: tuple[PodSignature, ...] = tuple(signers)
        declared = [_declared(plugin) for plugin in self.signers]
        names = sorted({name for each in declared for name in each or ()})
        self.read: Callable[[Pod], object] | None = attrgetter(*names) if names else None
        defaults = tuple(_DEFAULTS[name] for name in names)
        self.unset: object = defaults if len(names) > 1 else next(iter(defaults), None)
        self.asked: tuple[tuple[int, PodSignature], ...] = tuple(
            (n, plugin) for n, plugin in enumerate(self.signers) if declared[n] is None
        )
        self.blank: tuple[Hashable, ...] = (None,) * len(self.signers)


def _declared(plugin: Any) -> frozenset[str] | None:
    """Return the attributes that a plugin declares; None if it must be asked about every pod."""
    given: Any = getattr(plugin, "attributes_signed", None)
    if given is None or not _is_about(plugin, "attributes_signed", "pod_signature"):
        return None
    expected = "a collection of attributes of Pod that have a default"
    problem = f"{plugin.name!r} has {given!r}, expected {expected}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ProfileError("attributes_signed", problem)
    names = tuple(cast("Iterable[object]", given))
    if not all(isinstance(name, str) and name in _DEFAULTS for name in names):
        raise ProfileError("attributes_signed", problem)
    return frozenset(map(str, names))


def signs_in_cycle(plugins: Iterable[object]) -> tuple[Callable[[Pod], Hashable], ...]:
    """Return the methods that sign a pod while the nodes stay as they are; none if one is missing.

    That is ``pod_signature``, and ``signature_in_cycle`` of a plugin that also reads all nodes.
    """
    found: list[Callable[[Pod], Hashable]] = []
    for plugin in {id(each): each for each in plugins}.values():
        signs: Any = getattr(plugin, "pod_signature", None)
        if not callable(signs):
            signs = getattr(plugin, "signature_in_cycle", None)
        if not callable(signs):
            return ()
        found.append(cast("Callable[[Pod], Hashable]", signs))
    return tuple(found)


def signers_of_capacity(
    signers: Iterable[NodeSignature],
) -> tuple[tuple[int, NodeSignature], ...]:
    """Return the plugins to ask again after a node has taken or released a pod, by position.

    Raises:
        ProfileError: A plugin declares something else than a bool.
    """
    return tuple((n, plugin) for n, plugin in enumerate(signers) if not _signs_node_alone(plugin))


def signs_allocatable(plugin: Any) -> bool:
    """Return whether a plugin declares that its signature contains the allocatable capacity.

    Raises:
        ProfileError: The plugin declares something else than a bool.
    """
    return _declares(plugin, "signs_allocatable")


def _signs_node_alone(plugin: Any) -> bool:
    return _declares(plugin, "signs_node_alone")


def _declares(plugin: Any, declaration: str) -> bool:
    """Return whether a plugin declares something of its ``node_signature``."""
    given: object = getattr(plugin, declaration, False)
    if type(given) is not bool:
        problem = f"{plugin.name!r} has {given!r}, expected True or False"
        raise ProfileError(declaration, problem)
    return given and _is_about(plugin, declaration, "node_signature")


def evaluates_nodes(plugin: Any) -> bool:
    """Return whether a plugin has a ``node_evaluator`` for its filter, headroom and score."""
    return callable(getattr(plugin, "node_evaluator", None)) and all(
        callable(getattr(plugin, method, None)) and _is_about(plugin, "node_evaluator", method)
        for method in ("filter", "headroom", "score")
    )


def _is_about(plugin: object, declaration: str, method: str) -> bool:
    """Return whether no subclass overrides a method without a declaration of its own."""
    for each in type(plugin).__mro__:
        if declaration in vars(each):
            return True
        if method in vars(each):
            return False
    return True  # both are attributes of the plugin itself
