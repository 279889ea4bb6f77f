"""The JSON of kube-scheduler's extender protocol: ``k8s.io/kube-scheduler/extender/v1``.

Rules:
  R1  a field of the wrong type is an error that names the field and the value. A field that is not
      known is ignored: a later kube-scheduler may have more of them;
  R2  nodes come as names, so ``nodeCacheCapable: true`` is required. Without it each request would
      have every node as a whole, which this process watches anyway;
  R3  the pod of a request is left as bytes: it is read by the reader of watches;
  R4  names become parts of paths at the API server, so only names that an object can have are read.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar, cast, final

import msgspec

from gangsched.errors import InvalidValueError

__all__ = [
    "BindingArgs",
    "ExtenderArgs",
    "HostPriority",
    "MetaPod",
    "MetaVictims",
    "PreemptionArgs",
    "encode_bound",
    "encode_filtered",
    "encode_priorities",
    "encode_victims",
    "read_binding_args",
    "read_extender_args",
    "read_preemption_args",
]

T = TypeVar("T")

_NO_CACHE: Final = "a list of names: set nodeCacheCapable: true for this extender"
_PROBLEM: Final = re.compile(
    r"(?P<what>.*?)(?:, got `[^`]*`)?(?: - at `\$(?P<path>.*)`)?", re.DOTALL
)
_EXPECTED: Final = re.compile(r"Expected `(?P<type>.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>.*)`")
_STEP: Final = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,251}[A-Za-z0-9])?")
_LONGEST_VALUE: Final = 200
_KINDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "array": "a list",
    "array | null": "a list",
    "object": "an object",
    "object | null": "an object",
}


@final
class ExtenderArgs(msgspec.Struct, rename="pascal"):
    """The request of ``filter`` and ``prioritize``: a pod, and the nodes that are feasible."""

    pod: msgspec.Raw
    node_names: list[str] | None = None


@final
class BindingArgs(msgspec.Struct):
    """The request of ``bind``."""

    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


@final
class MetaPod(msgspec.Struct):
    """A victim."""

    uid: str = msgspec.field(name="UID")


@final
class MetaVictims(msgspec.Struct):
    """The victims on one node, and how many disruption budgets they violate."""

    pods: list[MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


@final
class PreemptionArgs(msgspec.Struct, rename="pascal"):
    """The request of ``preempt``: a pod, and by node the victims that would make it fit."""

    pod: msgspec.Raw
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


@final
class HostPriority(msgspec.Struct, rename="pascal", frozen=True):
    """The score of one node, from 0 to 10."""

    host: str
    score: int


@final
class _Filtered(msgspec.Struct, rename="pascal"):
    node_names: list[str]
    failed_and_unresolvable_nodes: dict[str, str]
    failed_nodes: dict[str, str] = {}
    error: str = ""


@final
class _Bound(msgspec.Struct, rename="pascal"):
    error: str = ""


@final
class _Victims(msgspec.Struct, rename="pascal"):
    node_name_to_meta_victims: dict[str, MetaVictims]


_encode: Final = msgspec.json.Encoder().encode
_extender_args: Final = msgspec.json.Decoder(ExtenderArgs)
_binding_args: Final = msgspec.json.Decoder(BindingArgs)
_preemption_args: Final = msgspec.json.Decoder(PreemptionArgs)


def read_extender_args(raw: bytes) -> tuple[bytes, list[str]]:
    """Return the pod, as JSON, and the names of the nodes.

    Raises:
        InvalidValueError: A field is absent or malformed.
    """
    args = _read(_extender_args, raw)
    if args.node_names is None:
        raise InvalidValueError("NodeNames", None, _NO_CACHE)
    return bytes(args.pod), args.node_names


def read_binding_args(raw: bytes) -> BindingArgs:
    """Return what is to be bound.

    Raises:
        InvalidValueError: A field is absent or malformed.
    """
    args = _read(_binding_args, raw)
    given = {
        "PodName": args.name,
        "PodNamespace": args.namespace,
        "PodUID": args.uid,
        "Node": args.node,
    }
    for name, value in given.items():
        if not value:
            raise InvalidValueError(name, value, "a non-empty string")
        if not _NAME.fullmatch(value):
            raise InvalidValueError(name, value[:_LONGEST_VALUE], "the name of an object")
    return args


def read_preemption_args(raw: bytes) -> tuple[bytes, dict[str, MetaVictims]]:
    """Return the pod, as JSON, and by node the victims.

    Raises:
        InvalidValueError: A field is absent or malformed.
    """
    args = _read(_preemption_args, raw)
    if args.node_name_to_meta_victims is None:
        raise InvalidValueError("NodeNameToMetaVictims", None, _NO_CACHE)
    return bytes(args.pod), args.node_name_to_meta_victims


def encode_filtered(names: list[str], failed: dict[str, str]) -> bytes:
    """Return the answer of ``filter``.

    Args:
        names: The nodes that are left.
        failed: By the name of each other node, why preemption on it would not help either.
    """
    return _encode(_Filtered(names, failed))


def encode_bound(error: str = "") -> bytes:
    """Return the answer of ``bind``; with an empty text the pod is bound."""
    return _encode(_Bound(error))


def encode_priorities(scores: list[HostPriority]) -> bytes:
    """Return the answer of ``prioritize``."""
    return _encode(scores)


def encode_victims(victims: dict[str, MetaVictims]) -> bytes:
    """Return the answer of ``preempt``: the nodes that are left, with their victims."""
    return _encode(_Victims(victims))


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise _named(str(error), msgspec.json.decode(raw)) from error
    # not every string is decoded by msgspec, and brackets may be too deep for it
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        start = raw[:100].decode("utf-8", "replace")
        raise InvalidValueError("the body", start, "JSON") from error


def _named(problem: str, document: object) -> InvalidValueError:
    """Return the error about the field and the value that a message of msgspec is about."""
    found = _PROBLEM.fullmatch(problem)
    what, path = (found["what"], found["path"] or "") if found else (problem, "")
    missing = _MISSING.fullmatch(what)
    if missing:
        name = f"{path}.{missing['field']}".removeprefix(".")
        return InvalidValueError(name, None, "present")
    value = document
    for step in _STEP.finditer(path):
        value = _inside(value, step["key"], step["index"])
    expected = _EXPECTED.fullmatch(what)
    kind = expected["type"] if expected else what
    return InvalidValueError(path.removeprefix(".") or "the body", value, _KINDS.get(kind, kind))


def _inside(value: object, key: str | None, index: str | None) -> object:
    found: Any = value
    if isinstance(found, dict):  # "[...]" stands for any of the values
        entries = cast("dict[str, object]", found)
        return list(entries.values()) if key is None else entries.get(key)
    if isinstance(found, list) and index is not None and index.isdigit():
        return cast("list[object]", found)[int(index)]
    return value
