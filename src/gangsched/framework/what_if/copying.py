"""Forking a scheduler: another that remembers the same, and may go another way.

Rules:
  R1  whatever may change is copied, whatever never does is shared: a fork and its origin have
      nothing in common that either could change;
  R2  a thing is copied once, so that who is shared with whom is as it was;
  R3  what a dict holds is copied when somebody looks at it: what is not looked at costs nothing
      but its place in the dict;
  R4  nothing of the origin changes: not even who was looked at is noted there.

What is not of the library is not looked into. Of a plugin, of what it wrote into the scratch of a
cycle, and of run times, see ``gangsched.protocols.Forkable``.
"""

from __future__ import annotations

import enum
import types
from collections import deque
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, Final, TypeVar, cast, final

import attrs
from attrs import evolve
from sortedcontainers import SortedDict, SortedList

from gangsched.errors import GangschedError, PluginError, ProfileError
from gangsched.framework.config.backfill import Backfill
from gangsched.framework.config.cycle_state import CycleState
from gangsched.framework.config.profile import Profile
from gangsched.framework.nodes.node_class import Snapshot
from gangsched.framework.runtime import extension_points
from gangsched.framework.what_if.lazy_dict import LazyDict
from gangsched.protocols import ClusterState
from gangsched.resources import FrozenMap

__all__ = ["fork", "forked_cluster", "forked_policy", "forked_profile"]

T = TypeVar("T")

_VALUES: Final = (type(None), bool, int, float, complex, str, bytes, enum.Enum, type)
_CODE: Final = (types.BuiltinFunctionType, types.ModuleType)
_MEMORY: Final = ("gangsched._core.", "gangsched.framework.")
"""Where frozen values are that hold things that change; those of other modules hold none."""
_COMPILED: Final = "gangsched._core._heap._c"
_READ_ONLY: Final = (Snapshot,)
"""Classes of ours whose objects are made once and only read from then on."""


def fork(thing: T, *, instead: tuple[tuple[object, object], ...] = ()) -> T:
    """Return a copy of a thing and of all that it reaches.

    Runtime complexity: O(what is reached without looking into a dict of things that change), and
    for each such dict a copy as it stands.

    Args:
        thing: What is copied; it must not change while the copy is in use.
        instead: What is not copied, but something else put in its place; or itself.

    Raises:
        ProfileError: A plugin wrote what cannot be copied into the scratch of a cycle.
        PluginError: The ``fork`` of what a plugin wrote raised.
    """
    return cast("T", _Fork(instead).copied(thing))


def forked_profile(profile: Profile) -> Profile:
    """Return a profile whose plugins may be asked what would be; see ``Forkable``.

    Raises:
        ProfileError: A plugin keeps something, and cannot be forked.
        PluginError: The ``fork`` of a plugin raised.
    """
    plugins = tuple(_plugin(plugin, extension_points.name_of(plugin)) for plugin in profile.plugins)
    if all(map(is_, plugins, profile.plugins)):
        return profile
    return Profile(*plugins, weights=profile.weights)


def forked_cluster(cluster: ClusterState) -> ClusterState:
    """Return what is read in the place of a cluster state: itself, if it has no ``fork``.

    Raises:
        PluginError: Its ``fork`` raised.
    """
    return cast("ClusterState", _forked(cluster, "cluster")) if _has_fork(cluster) else cluster


def forked_policy(policy: Backfill | None) -> Backfill | None:
    """Return a policy whose run times may be asked what would be; they are held to as plugins are.

    Raises:
        ProfileError: They keep something, and cannot be forked.
        PluginError: Their ``fork`` raised.
        InvalidValueError: Their ``fork`` returned no run times.
    """
    if policy is None or policy.run_times is None:
        return policy
    run_times = _plugin(policy.run_times, "run_times")
    return policy if run_times is policy.run_times else evolve(policy, run_times=run_times)


def _plugin(plugin: Any, name: str) -> Any:
    if _has_fork(plugin):
        return _forked(plugin, name)
    if _is_value(plugin) or not (_is_container(plugin) or _attributes(plugin)):
        return plugin
    raise ProfileError("what_if", f"plugin {name!r} keeps something, and has no fork")


def _has_fork(thing: object) -> bool:
    return callable(getattr(thing, "fork", None))


def _forked(thing: Any, name: str) -> Any:
    """Return the fork that a thing makes of itself."""
    try:
        return thing.fork()
    except GangschedError:
        raise
    except Exception as error:
        raise PluginError(name, "fork", "what_if", f"raised {error!r}") from error


@final
class _Fork:
    """One copy of everything that is reached from somewhere."""

    def __init__(self, instead: tuple[tuple[object, object], ...]) -> None:
        self._made: dict[int, Any] = {id(one): other for one, other in instead}
        self._how: dict[type, Callable[[Any], Any] | None] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def copied(self, thing: object) -> Any:
        """Return what stands for a thing; the thing itself where it never changes."""
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
        """Return what copies things of a type; None for things that are shared."""
        for base, copier in (
            (FrozenMap, None),
            (tuple, self._tuple),
            (list, self._list),
            (SortedDict, self._sorted_dict),
            (dict, self._dict),
            (set, self._set),
            (deque, self._deque),
            (SortedList, self._sorted_list),
            (types.MethodType, self._method),
            (types.FunctionType, self._function),
            (CycleState, self._cycle),
        ):
            if issubclass(kind, base):
                return copier
        is_value = issubclass(kind, (*_VALUES, *_CODE, *_READ_ONLY, BaseException))
        is_memory = kind.__module__.startswith(_MEMORY)
        if is_value or (not is_memory and (_is_frozen(kind) or not _is_ours(kind))):
            return None
        if kind.__module__.startswith(_COMPILED):
            return self._reduced
        return self._frozen if _is_frozen(kind) else self._object

    def _are_shared(self, kinds: set[type]) -> bool:
        """Say whether things of these types are shared, all of them; keys that are tuples are."""
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
        for name, value in self._held(thing).items():
            object.__setattr__(made, name, self.copied(value))
        return made

    def _reduced(self, thing: Any) -> Any:
        """Copy what has no attributes to be seen, as a pickle would."""
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
        parts = [self.copied(part) for part in thing]
        if all(map(is_, parts, thing)):
            return thing
        named = getattr(_kind(thing), "_make", None)
        return tuple(parts) if named is None else named(parts)

    def _list(self, thing: list[Any]) -> list[Any]:
        made: list[Any] = []
        self._made[id(thing)] = made  # before what is in it: it may hold itself
        made.extend(map(self.copied, thing))
        return made

    def _dict(self, thing: dict[Any, Any]) -> Any:
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

    def _method(self, thing: types.MethodType) -> types.MethodType:
        return types.MethodType(thing.__func__, self.copied(thing.__self__))

    def _function(self, thing: Any) -> Any:
        """Copy a function of ours that has memory in its closure; others are shared."""
        if not thing.__closure__ or not _is_ours(thing):
            return thing
        cells = tuple(types.CellType() for _cell in thing.__closure__)
        code, name, given = thing.__code__, thing.__name__, thing.__defaults__
        made = types.FunctionType(code, thing.__globals__, name, given, cells)
        made.__kwdefaults__ = thing.__kwdefaults__
        made.__module__, made.__qualname__ = thing.__module__, thing.__qualname__
        self._made[id(thing)] = made  # before its closure: what is there may hold it
        for cell, original in zip(cells, thing.__closure__, strict=True):
            cell.cell_contents = self.copied(original.cell_contents)
        return made

    def _cycle(self, thing: CycleState) -> CycleState:
        made: CycleState = self._object(thing)
        written = thing._scratch
        if written is not None:
            made._scratch = {key: self._written(key, value) for key, value in written.items()}
        return made

    def _written(self, key: Any, value: Any) -> Any:
        """Copy what a plugin wrote."""
        if _has_fork(value):
            return _forked(value, key.name)
        if _is_value(value):
            return value
        kind = _kind(value)
        held = [*value.keys(), *value.values()] if kind is dict else value
        if kind in (list, set, deque, dict) and all(map(_is_value, held)):
            return cast("Any", kind(value))
        problem = f"{value!r}, written under {key!r}, may change, and has no fork"
        raise ProfileError("what_if", problem)


def _is_value(thing: Any) -> bool:
    """Say whether a thing of somebody else's never changes, nor anything that it holds."""
    parts: Iterable[Any] = ()
    if isinstance(thing, _VALUES):
        return True
    if isinstance(thing, types.FunctionType):
        parts = (cell.cell_contents for cell in thing.__closure__ or ())
    elif isinstance(thing, FrozenMap):
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
    """Say whether the attributes of a class are never set again."""
    if attrs.has(kind):
        return bool(attrs.inspect(kind).is_frozen)
    params = getattr(kind, "__dataclass_params__", None)
    return bool(getattr(params, "frozen", False))


def _attributes(thing: object, slots: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return what an object holds, in its slots and in its ``__dict__``."""
    names = _slots(type(thing)) if slots is None else slots
    found = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    return {**found, **getattr(thing, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of the slots of a class, as its objects have them."""
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
    """Return the name of an attribute as Python makes it of one in the body of a class."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if private else name
