"""Call one plugin at one extension point, and check what it returns.

A plugin is foreign code. It may raise, and it may return anything: ``None``, a string, an object
whose ``repr`` raises. Whatever happens becomes a ``PluginError`` with the plugin's name, the
point, the pod and the returned value, so that an operator finds the plugin from the message alone.

Rules:
  R1  a return value is checked by its real type, ``type(answer)``, since ``__class__`` can lie;
  R2  an iterable or a mapping is read inside the ``try``: a generator raises while it is read;
  R3  a ``PluginError`` of a plugin that calls other plugins passes through unchanged, because it
      names the inner plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from gangsched.cluster_objects import KINDS
from gangsched.errors import PluginError
from gangsched.model import Node, Pod
from gangsched.outcomes import SUCCESS, Skip, Success, Unschedulable
from gangsched.protocols import GroupView

__all__ = [
    "About",
    "EXPECTED",
    "call",
    "call_for_kinds",
    "call_for_names",
    "first_refusal",
    "name_of",
    "names_in",
    "raised",
    "returned",
]

About: TypeAlias = Pod | GroupView | Node | str
"""What a plugin is asked about; an account is a string."""

_DECISION: Final = "Success, Skip or Unschedulable"
EXPECTED: Final[Mapping[str, str]] = {
    "pre_enqueue": _DECISION,
    "account": "a string",
    "share": "a number",
    "queue_sort": "a non-empty tuple of numbers, strings and such tuples",
    "pre_filter": _DECISION,
    "filter": _DECISION,
    "post_filter": "Success, Skip, Unschedulable, RejectGroup, HoldGroup or EvictGroup",
    "pre_score": _DECISION,
    "score": "an int from 0 to 100",
    "normalize_score": "a mapping with an int from 0 to 100 for each node",
    "reserve": _DECISION,
    "unreserve": "RejectGroup, EvictGroup or None",
    "permit": "Success, Skip, Wait or Unschedulable",
    "pre_bind": _DECISION,
    "bind": "a Bind of this pod, node and attempt, or Skip",
    "post_bind": "None",
    "pod_signature": "a hashable value",
    "node_signature": "a hashable value",
    "labels_read": "an iterable of strings",
    "fitted": "an iterable of strings",
    "cluster_headroom": "an int >= 0, or None",
    "pod_ended": "True or False",
    "objects_read": "an iterable of classes in gangsched.cluster_objects.KINDS",
    "reads_pods": "True or False",
    "scores_in_cycle": "True or False",
    "volume_choices": "an iterable of VolumeChoice",
    "skips": "True or False",
    "pods_affected": "an iterable of CarriedTerm",
    "pods_selected": "an iterable of PodMatcher",
    "topology_keys": "an iterable of strings, or None",
    "node_group": "a hashable value",
    "hindered_within": "an iterable of strings, or None",
    "nodes_named": "an iterable of strings, or None",
    "add_pod": "None",
    "remove_pod": "None",
    "members_needed": "an int or None",
    "roles_needed": "a mapping of strings to ints",
    "group_requests": "Resources",
}
_LONGEST: Final = 300
_STRINGS: Final = frozenset({str})
_OBJECTS: Final = frozenset(KINDS.values())


def name_of(plugin: Any) -> str:
    """Return the name of a plugin for messages. A profile accepts no plugin without one."""
    try:
        name: object = plugin.name
    except Exception:
        name = None
    return name if isinstance(name, str) else type(plugin).__name__


def raised(plugin: Any, point: str, about: About, error: Exception) -> PluginError:
    """Return the error for a plugin that raised. The caller chains the cause."""
    return PluginError(name_of(plugin), point, _key(about), f"raised {_shown(error)}")


def returned(
    plugin: Any, point: str, about: About, answer: object, expected: str = ""
) -> PluginError:
    """Return the error for a plugin that returned something its point does not allow."""
    problem = f"returned {_shown(answer)}, expected {expected or EXPECTED[point]}"
    return PluginError(name_of(plugin), point, _key(about), problem)


def call(plugin: Any, point: str, about: About, allowed: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a plugin at a point; return its answer, which is of an allowed class.

    Raises:
        PluginError: The plugin raised, or returned an instance of another class.
    """
    try:
        answer = getattr(plugin, point)(*args, **kwargs)
    except PluginError:
        raise
    except Exception as error:
        raise raised(plugin, point, about, error) from error
    if not issubclass(type(answer), allowed):
        raise returned(plugin, point, about, answer)
    return answer


def call_for_names(plugin: Any, point: str, about: About, *args: Any) -> tuple[str, ...]:
    """Call a plugin for strings. One string is no iterable of names, although it is iterable.

    Raises:
        PluginError: The plugin raised, also while it was read, or returned anything else.
    """
    return names_in(plugin, point, about, call(plugin, point, about, object, *args))


def names_in(plugin: Any, point: str, about: About, answer: Any) -> tuple[str, ...]:
    """Return the strings that a plugin has answered; see ``call_for_names``."""
    kind = _kind(answer)
    if kind is not tuple and (issubclass(kind, str | bytes) or not issubclass(kind, Iterable)):
        raise returned(plugin, point, about, answer)
    try:
        names: tuple[Any, ...] = tuple(answer)
    except Exception as error:
        raise raised(plugin, point, about, error) from error
    if _STRINGS.issuperset(map(type, names)):
        return names
    if not all(issubclass(type(name), str) for name in names):
        raise returned(plugin, point, about, names)
    return names


def call_for_kinds(plugin: Any, point: str, about: About, *args: Any) -> tuple[type[Any], ...]:
    """Call a plugin for classes of objects.

    Raises:
        PluginError: The plugin raised, also while it was read, or returned anything else.
    """
    answer: Any = call(plugin, point, about, Iterable, *args)
    try:
        kinds: tuple[Any, ...] = tuple(answer)
        is_known = _OBJECTS.issuperset(kinds)
    except Exception as error:
        raise raised(plugin, point, about, error) from error
    if not is_known:
        raise returned(plugin, point, about, kinds)
    return kinds


def first_refusal(
    plugins: tuple[Any, ...], point: str, pod: Pod, *args: Any, now: float
) -> tuple[Any, Unschedulable] | None:
    """Ask plugins in order; return the first that refuses with its answer, None if none does.

    Raises:
        PluginError: A plugin raised, or returned what the point does not allow.
    """
    plugin: Any = None
    try:
        for plugin in plugins:
            answer: object = getattr(plugin, point)(*args, now=now)
            if answer is SUCCESS:
                continue  # most answers: worth the short way
            kind = type(answer)  # ``__class__`` may hide the real one
            if kind is Unschedulable:
                found: Any = answer
                return plugin, found
            if kind is not Success and kind is not Skip:
                raise returned(plugin, point, pod, answer)
    except PluginError:
        raise
    except Exception as error:
        raise raised(plugin, point, pod, error) from error
    return None


def _kind(value: object) -> type[object]:
    """Return the real type of a value, which ``__class__`` may hide."""
    return type(value)


def _key(about: About) -> str:
    if isinstance(about, str):
        return about
    return about.name if isinstance(about, Node) else about.key


def _shown(value: object) -> str:
    """Return the ``repr`` of a value, shortened; of one whose ``repr`` raises, its type."""
    try:
        shown = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
