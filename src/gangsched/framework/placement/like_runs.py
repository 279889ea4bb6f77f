"""Runs of members that are alike, in the order in which the members of a gang are planned.

Most gangs are one run. What is compared is one object for like members as a rule, and none of it is
compared in Python. So a gang of 1,000 pays for one kind, not for 1,000 members.

Rules:
  R1  the members of a run are of one kind; one kind may have several runs;
  R2  if pod classes are of one decision, they do not tell which members are alike, so each member
      is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

from gangsched.constraints.matchers import PodMatcher
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.runtime import pod_readers
from gangsched.framework.runtime.pod_readers import Affecting
from gangsched.framework.state.pods import Member

__all__ = ["runs"]

_likeness: Final[Callable[[Member], Hashable]] = attrgetter(
    "pod_class", "requests", "group", "role"
)
_number: Final[Callable[[Member], Hashable]] = attrgetter("seq")


def runs(
    nodes: Nodes, members: Sequence[Member], *, signed: bool
) -> Iterator[tuple[frozenset[Affecting], frozenset[PodMatcher], list[Member]]]:
    """Iterate over the runs of members that are of one kind. O(members).

    Args:
        nodes: The nodes.
        members: The members.
        signed: Whether pods with equal signatures share a class; see R2.

    Yields:
        The carried terms that are about the members of a run, which matchers of their siblings
        select them, and the run. See ``complete_search.Kind``.
    """
    key = _likeness if signed else _number
    if not nodes.watches_pods:
        for _key, run in groupby(members, key=key):
            yield pod_readers.NO_TERMS, pod_readers.NOT_SELECTED, list(run)
        return
    by_terms = pod_readers.affected_among(nodes, members)
    by_siblings = pod_readers.selected_among(members)
    keys = zip(map(key, members), by_terms, by_siblings, strict=True)
    pairs = zip(keys, members, strict=True)
    for (_key, affected, selected), of_run in groupby(pairs, key=itemgetter(0)):
        yield affected, selected, [member for _pair, member in of_run]
