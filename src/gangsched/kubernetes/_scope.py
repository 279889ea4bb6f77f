"""The namespaces that an answer may speak of.

Rules:
  R1  who may list the pods of all namespaces sees all; who may list those of some sees these. A
      namespace that is asked for and must not be read is refused before anything is looked up, so
      the answer does not say whether it exists;
  R2  without a namespace in the question, those that have something to show are reviewed one by
      one. At most 64 are, since each may be a request to the API server;
  R3  a sentence about a gang may name another one, such as that for which nodes are reserved. If it
      is of a namespace that must not be read, its name is left out;
  R4  what is not of namespaces, such as what a quota uses, is for those who may list the pods of
      all. Any pod may name any quota, so each total is about all namespaces. Of a gang that waits
      for its quota, the others read the message about that quota, and nothing of other queues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final, cast, final

from attrs import evolve, frozen

from gangsched.errors import GangschedError
from gangsched.explain import NotAdmitted, PartlyRunning, Queued, Why
from gangsched.kubernetes._reviews import Asker

__all__ = ["MOST_REVIEWED", "NotReadableError", "Scope", "among", "scope_of", "whole_cluster"]

MOST_REVIEWED: Final = 64
_HIDDEN: Final = "(of another namespace)"
_PATH: Final = "path"
_KEY: Final = re.compile(
    r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
)
"""A ``namespace/name``. A resource such as ``nvidia.com/gpu`` has a dot before the slash."""


@final
class NotReadableError(GangschedError):
    """An asker may not read what it has asked for."""


@final
@frozen
class Scope:
    """The namespaces that an answer may speak of.

    Attributes:
        readable: The namespaces; None for all.
        asked: The only namespace that rows are asked for; None for all.
    """

    readable: frozenset[str] | None = None
    asked: str | None = None

    def has(self, key: str) -> bool:
        """Return whether ``namespace/name`` has a row."""
        namespace = key.partition("/")[0]
        return self.asked in (None, namespace) and (
            self.readable is None or namespace in self.readable
        )

    def without_queues(self, why: Why) -> Why:
        """Return an answer without what it says of other queues, unless all may be read."""
        if self.readable is None:
            return why
        if isinstance(why, PartlyRunning) and why.rest is not None:
            return evolve(why, rest=self.without_queues(why.rest))
        return evolve(why, turn=None) if isinstance(why, NotAdmitted | Queued) else why

    def without_others(self, value: Any, exists: Callable[[str], bool]) -> Any:
        """Return plain data without the names of pods and groups of other namespaces.

        Args:
            value: The data.
            exists: Returns whether ``namespace/name`` is in a namespace of the cluster.
        """
        readable = self.readable
        if readable is None:
            return value

        def shown(found: re.Match[str]) -> str:
            return found[0] if found[1] in readable or not exists(found[0]) else _HIDDEN

        def cleaned(part: Any) -> Any:
            match part:
                case str():
                    return _KEY.sub(shown, part)
                case list():
                    return [*map(cleaned, cast("list[object]", part))]
                case dict():
                    given = cast("dict[str, Any]", part)
                    # the path of a part, such as ``decode/0``, is of its own group
                    return {n: each if n == _PATH else cleaned(each) for n, each in given.items()}
                case _:
                    return part

        return cleaned(value)


async def scope_of(asker: Asker, namespace: str | None) -> Scope | None:
    """Return the scope of a question; None if it is that of the namespaces that have rows.

    Raises:
        NotReadableError: The namespace must not be read.
        NotReviewedError: It is not known.
    """
    if await asker.may_list_pods(""):
        return Scope(asked=namespace)
    if namespace is None:
        return None
    if namespace and await asker.may_list_pods(namespace):
        return Scope(frozenset((namespace,)), namespace)
    raise NotReadableError(f"{asker.name} may not list the pods of the namespace {namespace!r}")


async def whole_cluster(asker: Asker) -> Scope:
    """Return the scope of a question that is about all namespaces together.

    Raises:
        NotReadableError: Some namespaces must not be read.
        NotReviewedError: It is not known.
    """
    if await asker.may_list_pods(""):
        return Scope()
    raise NotReadableError(
        f"{asker.name} may not list the pods of all namespaces, which the answer is about"
    )


async def among(asker: Asker, namespaces: Collection[str]) -> Scope:
    """Return the scope of those namespaces that may be read.

    Raises:
        NotReadableError: They are none, or too many to be reviewed.
        NotReviewedError: It is not known.
    """
    if len(namespaces) > MOST_REVIEWED:
        raise NotReadableError(
            f"{asker.name} may not list the pods of all namespaces, and there are too many to look"
            " at each: name one with namespace=NAME"
        )
    readable = frozenset([each for each in namespaces if await asker.may_list_pods(each)])
    if not readable:
        raise NotReadableError(
            f"{asker.name} may not list the pods of any namespace that has gangs: name a namespace"
            " with namespace=NAME"
        )
    return Scope(readable)
