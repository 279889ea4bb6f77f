"""``--delete-nodes`` and ``--restore-nodes``: nodes that go and come back, alone or a rack at once.

Rules:
  R1  nodes are named by a name, or by labels that all of them have, as ``kubectl -l`` does:
      ``block=b1,rack=r7``;
  R2  what matches no node that is there by then is an error before the run, not a run without it;
  R3  a node comes back as it was when it was deleted, and without pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gangsched.cli._files import BadInputError
from gangsched.events import Event, NodeAdded, NodeDeleted, NodeUpdated
from gangsched.model import Node, NodeName
from gangsched.simulation import Arrival, Workload
from gangsched.values.seconds import format_span

__all__ = ["add_node_events", "node_events"]

_DELETE, _RESTORE = "--delete-nodes", "--restore-nodes"


def add_node_events(group: Any) -> None:
    """Add the options."""
    group.add_argument(
        _DELETE,
        nargs="+",
        action="append",
        default=[],
        metavar=("DURATION", "NODES"),
        help="delete these nodes at that instant, with their pods: a name, or labels that they"
        " have, as in block=b1,rack=r7; may be repeated",
    )
    group.add_argument(
        _RESTORE,
        nargs="+",
        action="append",
        default=[],
        metavar=("DURATION", "NODES"),
        help="add these deleted nodes again, without pods; may be repeated",
    )
    group.add_argument(
        "--restart",
        action="store_true",
        help="create the pods again that are lost with their nodes; a gang of a trace is then"
        " restarted as a whole, and a pod group of a manifest if it has a restart policy",
    )


def node_events(
    deleted: Iterable[tuple[float, str]],
    restored: Iterable[tuple[float, str]],
    known: Sequence[Workload],
) -> Workload:
    """Return the deletions and returns of nodes.

    Args:
        deleted: The instant and the nodes of each ``--delete-nodes``.
        restored: Those of each ``--restore-nodes``.
        known: What else arrives, at one instant before these.

    Raises:
        BadInputError: Something names no node that is there, or is gone, by then.
    """
    asked = [(at, _DELETE, which) for at, which in deleted]
    asked += [(at, _RESTORE, which) for at, which in restored]
    if not asked:
        return Workload()
    arriving = iter(Workload().merge(*known).arrivals)
    upcoming = next(arriving, None)
    there: dict[NodeName, Node] = {}
    gone: dict[NodeName, Node] = {}
    found: list[Arrival] = []
    for at, option, which in sorted(asked, key=lambda each: each[0]):
        while upcoming is not None and upcoming.at <= at:
            if isinstance(upcoming.event, NodeAdded | NodeUpdated):
                there[upcoming.event.node.name] = upcoming.event.node
                gone.pop(upcoming.event.node.name, None)
            upcoming = next(arriving, None)
        source, target = (there, gone) if option == _DELETE else (gone, there)
        matching = list(_matching(which, source))
        if not matching:
            raise BadInputError(f"{option}: {_expected(option, at)}, got {which!r}")
        for node in matching:
            target[node.name] = source.pop(node.name)
            event: Event = NodeDeleted(node.name) if option == _DELETE else NodeAdded(node)
            found.append(Arrival(at, event))
    return Workload(found)


def _matching(which: str, nodes: Mapping[NodeName, Node]) -> Iterator[Node]:
    """Yield the nodes of a name, or with all labels of ``KEY=VALUE,...``. O(nodes)."""
    if "=" not in which:
        node = nodes.get(NodeName(which))
        yield from () if node is None else (node,)
        return
    wanted = [part.partition("=")[::2] for part in which.split(",")]
    for node in nodes.values():
        if all(node.labels.get(key) == value for key, value in wanted):
            yield node


def _expected(option: str, at: float) -> str:
    state = "is there" if option == _DELETE else "was deleted"
    by = f"by t={format_span(at)}"
    return f"expected a node that {state} {by}: its name, or labels such as block=b1,rack=r7"
