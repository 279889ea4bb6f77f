"""Forking a scheduler: a copy of its state that can be run without changing the original.

``Fork.copied`` walks the objects that are reached from the scheduler. For each type it decides
once what happens to objects of that type:

- values, classes, functions and objects of other libraries are shared;
- objects that a scheduler remembers are copied attribute by attribute (``_MEMORY``), unless their
  class is ``READ_ONLY``;
- containers are copied with their items. A dict with mutable values becomes a ``LazyDict``: the
  dict itself is copied at once, and each value when it is first read.

``copy.deepcopy`` is no alternative: it copies the values too, which are most of the state, and it
copies every entry of every dict. Most questions read few of them.

Rules:
  R1  mutable objects are copied and immutable ones are shared: a fork and its original have no
      mutable object in common;
  R2  each object is copied once, so aliasing is preserved;
  R3  a value of a dict is copied when it is first read. An entry that is not read costs only its
      slot in the dict. An attribute that its class names in ``DERIVED`` starts anew; of one that
      it names in ``SHALLOW`` the items are values;
  R4  the original is not changed by a fork, nor by reading from the fork.

Objects that belong to the user are not examined by these rules. For plugins, for the values that a
plugin writes into a cycle, and for run times, see ``gangsched.protocols.StateExtensions``.
"""

from __future__ import annotations

import enum
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any, Final, TypeVar, cast, final
from weakref import WeakValueDictionary

import attrs
from attrs import evolve
from sortedcontainers import SortedDict, SortedKeyList, SortedList

from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, PluginError, ProfileError
from gangsched.forking.lazy_dict import LazyDict
from gangsched.options.backfill import Backfill
from gangsched.profile import Profile
from gangsched.profile.calls import name_of
from gangsched.protocols import ClusterState
from gangsched.resources import FrozenMap

__all__ = [
    "Fork",
    "fork",
    "fork_counted",
    "forked_cluster",
    "forked_policy",
    "forked_profile",
    "is_forkable",
]

T = TypeVar("T")

_VALUES: Final = (type(None), bool, int, float, complex, str, bytes, enum.Enum, type)
_ATOMS: Final = frozenset({type(None), bool, int, float, str})
_CODE: Final = (types.BuiltinFunctionType, types.ModuleType)
_MEMORY: Final = (
    "gangsched.primitives.",
    "gangsched.core.",
    "gangsched.cycle_state.",
    "gangsched.profile.",
)
"""The modules in which a frozen class may hold mutable objects. Elsewhere it never does."""
_COMPILED: Final = "gangsched.primitives.heap._c"
_HINT: Final = "add fork(), see gangsched.protocols.StateExtensions"


def fork(thing: T, *, instead: tuple[tuple[object, object], ...] = ()) -> T:
    """Return a copy of an object and of everything that is reached from it.

    Runtime complexity: O(objects reached without the values of dicts), plus one shallow copy of
    each dict.

    Args:
        thing: The object to copy; it must not change while the copy is in use.
        instead: Pairs of an object and its replacement in the copy.

    Raises:
        ProfileError: A plugin wrote a mutable value without ``fork`` into a cycle.
        PluginError: The ``fork`` of a value that a plugin wrote raised.
    """
    return fork_counted(thing, instead=instead)[0]


def fork_counted(thing: T, *, instead: tuple[tuple[object, object], ...] = ()) -> tuple[T, Fork]:
    """Return the same, and what says which objects were copied so far.

    Objects in dicts are copied when they are first read, so their number grows.
    """
    made = Fork(instead)
    return cast("T", made.copied(thing)), made


def forked_profile(profile: Profile) -> Profile:
    """Return a profile with forks of the plugins that have state; see ``StateExtensions``.

    Raises:
        ProfileError: A plugin has state and no ``fork``.
        PluginError: The ``fork`` of a plugin raised.
    """
    plugins = tuple(_plugin(plugin, name_of(plugin)) for plugin in profile.plugins)
    if all(map(is_, plugins, profile.plugins)):
        return profile
    return Profile(*plugins, weights=profile.weights)


def forked_cluster(cluster: ClusterState) -> ClusterState:
    """Return the fork of a cluster state; the cluster state itself if it has no ``fork``.

    Raises:
        PluginError: The ``fork`` raised.
    """
    return cast("ClusterState", _forked(cluster, "cluster")) if _has_fork(cluster) else cluster


def forked_policy(policy: Backfill | None) -> Backfill | None:
    """Return a backfill policy with a fork of its run times, by the same rules as for plugins.

    Raises:
        ProfileError: The run times have state and no ``fork``.
        PluginError: Their ``fork`` raised.
        InvalidValueError: Their ``fork`` did not return run times.
    """
    if policy is None or policy.run_times is None:
        return policy
    run_times = _plugin(policy.run_times, "run_times")
    return policy if run_times is policy.run_times else evolve(policy, run_times=run_times)


def is_forkable(plugin: object) -> bool:
    """Return whether a plugin has ``fork`` or visibly keeps no state; see ``StateExtensions``."""
    return _has_fork(plugin) or _is_shared(plugin)


def _is_shared(plugin: object) -> bool:
    return _is_value(plugin) or not (_is_container(plugin) or _attributes(plugin))


def _plugin(plugin: Any, name: str) -> Any:
    if _has_fork(plugin):
        return _forked(plugin, name)
    if _is_shared(plugin):
        return plugin
    raise ProfileError("what_if", f"plugin {name!r} has state and no fork method; {_HINT}")


def _has_fork(thing: object) -> bool:
    return callable(getattr(thing, "fork", None))


def _forked(thing: Any, name: str) -> Any:
    """Call the ``fork`` method of an object of the user."""
    try:
        return thing.fork()
    except GangschedError:
        raise
    except Exception as error:
        raise PluginError(name, "fork", "what_if", f"raised {error!r}") from error


@final
class Fork:
    """One copy of an object graph.

    ``_made`` maps the ``id`` of each original to its copy (R2); the originals stay alive meanwhile.
    ``_how`` maps each type to the function that copies its objects, or to None if they are shared.
    """

    def __init__(self, instead: tuple[tuple[object, object], ...]) -> None:
        self._made: dict[int, Any] = {id(one): other for one, other in instead}
        self._how: dict[type, Callable[[Any], Any] | None] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def count(self) -> int:
        """Return how many objects were copied. O(1)."""
        return len(self._made)

    def has_copied(self, thing: object) -> bool:
        """Return whether an object was copied, or replaced. O(1)."""
        return id(thing) in self._made

    def copied(self, thing: object) -> Any:
        """Return the copy of an object; the object itself if it is immutable."""
        kind: type = type(thing)
        try:
            how = self._how[kind]
        except KeyError:
            how = self._how[kind] = self._copier(kind)
        if how is None:
            return self._made.get(id(thing), thing)
        found = self._made.get(id(thing), self)
        return how(thing) if found is self else found

    def _copier(self, kind: Any) -> Callable[[Any], Any] | None:
        """Return the function that copies objects of a type; None if they are shared."""
        for base, copier in (
            (FrozenMap, None),
            (tuple, self._tuple),
            (list, self._list),
            (SortedDict, self._sorted_dict),
            (dict, self._dict),
            (set, self._set),
            (deque, self._deque),
            (SortedKeyList, self._sorted_key_list),
            (SortedList, self._sorted_list),
            (WeakValueDictionary, self._weak_values),
            (types.MethodType, self._method),
            (CycleState, self._cycle),
        ):
            if issubclass(kind, base):
                return copier
        is_value = issubclass(kind, (*_VALUES, *_CODE, BaseException))
        is_read_only = getattr(kind, "READ_ONLY", False)
        is_memory = kind.__module__.startswith(_MEMORY)
        if is_value or is_read_only or (not is_memory and (_is_frozen(kind) or not _is_ours(kind))):
            return None
        if kind.__module__.startswith(_COMPILED):
            return self._reduced
        return self._frozen if _is_frozen(kind) else self._object

    def _are_shared(self, kinds: set[type]) -> bool:
        """Return whether objects of all these types are shared."""
        for kind in kinds:
            if kind not in self._how:
                self._how[kind] = self._copier(kind)
            if self._how[kind] is not None:
                return False
        return True

    def _held(self, thing: object) -> dict[str, Any]:
        kind: type = type(thing)
        names = self._names.get(kind)
        if names is None:
            names = self._names[kind] = _slots(kind)
        return _attributes(thing, names)

    def _object(self, thing: object) -> Any:
        made: Any = object.__new__(type(thing))
        self._made[id(thing)] = made
        derived: Mapping[str, Callable[[], Any]] = getattr(type(thing), "DERIVED", {})
        for name in getattr(type(thing), "SHALLOW", ()):
            value = getattr(thing, name)
            self._made[id(value)] = value.copy()
        for name, value in self._held(thing).items():
            fresh = derived.get(name)
            object.__setattr__(made, name, self.copied(value) if fresh is None else fresh())
        return made

    def _reduced(self, thing: Any) -> Any:
        """Copy an object of the compiled heap by its pickle protocol; it has no attributes."""
        make, args, state = thing.__reduce__()
        made = self._made[id(thing)] = make(*args)
        made.__setstate__(self.copied(state))
        return made

    def _frozen(self, thing: object) -> Any:
        given = self._held(thing)
        parts = {name: self.copied(value) for name, value in given.items()}
        if all(parts[name] is value for name, value in given.items()):
            return thing
        made: Any = object.__new__(type(thing))
        for name, value in parts.items():
            object.__setattr__(made, name, value)
        return made

    def _tuple(self, thing: Any) -> Any:
        if _ATOMS.issuperset(map(type, thing)):
            return thing  # most tuples: worth the short way
        parts = [self.copied(part) for part in thing]
        if all(map(is_, parts, thing)):
            return thing
        named = getattr(_kind(thing), "_make", None)
        return tuple(parts) if named is None else named(parts)

    def _list(self, thing: list[Any]) -> list[Any]:
        made: list[Any] = []
        if _ATOMS.issuperset(map(type, thing)):
            self._made[id(thing)] = made = list(thing)
            return made
        self._made[id(thing)] = made  # Before its items, because a list may contain itself.
        made.extend(map(self.copied, thing))
        return made

    def _dict(self, thing: dict[Any, Any]) -> Any:
        # Keys that are tuples are shared: they are hashable, and the library has no mutable object
        # in a key.
        keys: set[type] = {kind for kind in set(map(type, thing)) if not issubclass(kind, tuple)}
        if not self._are_shared(keys):
            made: Any = type(thing)()
            self._made[id(thing)] = made
            made.update({self.copied(key): self.copied(value) for key, value in thing.items()})
            return made
        if self._are_shared(set(map(type, thing.values()))):
            made = type(thing)(thing)
        elif type(thing) is dict:
            made = LazyDict(thing, self.copied)
        else:
            made = type(thing)((key, self.copied(value)) for key, value in thing.items())
        self._made[id(thing)] = made
        return made

    def _sorted_dict(self, thing: Any) -> Any:
        made = self._made[id(thing)] = type(thing)()
        made.update((key, self.copied(value)) for key, value in thing.items())
        return made

    def _set(self, thing: set[Any]) -> set[Any]:
        made = self._made[id(thing)] = set(map(self.copied, thing))
        return made

    def _deque(self, thing: Any) -> Any:
        made = self._made[id(thing)] = deque(map(self.copied, thing), thing.maxlen)
        return made

    def _sorted_list(self, thing: Any) -> Any:
        shared = self._are_shared(set(map(type, thing)))
        made = thing.copy() if shared else type(thing)(map(self.copied, thing))
        self._made[id(thing)] = made
        return made

    def _sorted_key_list(self, thing: Any) -> Any:
        # not from the items: a copy that is under way has no key yet
        made = self._made[id(thing)] = type(thing)(key=thing.key)
        made._lists = [list(map(self.copied, part)) for part in thing._lists]
        made._keys = [list(part) for part in thing._keys]
        made._maxes, made._len = list(thing._maxes), thing._len
        return made

    def _weak_values(self, thing: Any) -> Any:
        made = self._made[id(thing)] = type(thing)()
        kept = dict(thing)
        made.update((key, self.copied(value)) for key, value in kept.items())
        return made

    def _method(self, thing: types.MethodType) -> types.MethodType:
        return types.MethodType(thing.__func__, self.copied(thing.__self__))

    def _cycle(self, thing: CycleState) -> CycleState:
        made: CycleState = self._object(thing)
        written = thing._scratch
        if written is not None:
            made._scratch = {key: self._written(key, value) for key, value in written.items()}
        return made

    def _written(self, key: Any, value: Any) -> Any:
        """Copy a value that a plugin wrote into a cycle."""
        if _has_fork(value):
            return _forked(value, key.name)
        if _is_value(value):
            return value
        kind = _kind(value)
        held = [*value.keys(), *value.values()] if kind is dict else value
        if kind in (list, set, deque, dict) and all(map(_is_value, held)):
            return cast("Any", kind(value))
        problem = f"{value!r}, written under {key!r}, is mutable and has no fork method; {_HINT}"
        raise ProfileError("what_if", problem)


def _is_value(thing: Any) -> bool:
    """Return whether an object of the user, and everything that it holds, is immutable."""
    parts: Iterable[Any] = ()
    if isinstance(thing, _VALUES):
        return True
    if isinstance(thing, types.FunctionType):
        parts = (cell.cell_contents for cell in thing.__closure__ or ())
    elif isinstance(thing, FrozenMap | types.MappingProxyType):
        # a view of a dict: whatever else holds the dict must not change it
        parts = tuple(cast("Any", thing).values())
    elif isinstance(thing, tuple | frozenset):
        parts = cast("Iterable[Any]", thing)
    elif _is_container(thing) or not _is_frozen(_kind(thing)):
        return False
    else:
        parts = _attributes(thing).values()
    return all(map(_is_value, parts))


def _is_container(thing: object) -> bool:
    return isinstance(thing, list | tuple | dict | set | deque | SortedList)


def _kind(thing: object) -> Any:
    return type(thing)


def _is_ours(kind: Any) -> bool:
    return str(kind.__module__).startswith("gangsched.")


def _is_frozen(kind: type) -> bool:
    """Return whether a class is a frozen attrs class or dataclass."""
    if attrs.has(kind):
        return bool(attrs.inspect(kind).is_frozen)
    params = getattr(kind, "__dataclass_params__", None)
    return bool(getattr(params, "frozen", False))


def _attributes(thing: object, slots: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return the attributes of an object, from its slots and its ``__dict__``."""
    names = _slots(type(thing)) if slots is None else slots
    found = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    return {**found, **getattr(thing, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of the slots of a class and its bases, mangled if they are private."""
    of_each: list[tuple[type, Any]] = [
        (base, base.__dict__.get("__slots__", ())) for base in kind.__mro__
    ]
    return tuple(
        _mangled(base, name)
        for base, slots in of_each
        for name in ((slots,) if type(slots) is str else slots)
        if name not in ("__dict__", "__weakref__")
    )


def _mangled(owner: type, name: str) -> str:
    """Return the name of an attribute after Python's mangling of private names."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if private else name
