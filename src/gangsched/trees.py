"""How a group stands part by part: a tree of its copies of roles, or of the groups below it.

Rules:
  R1  a tree is a tuple of rows, parents first, and its ``repr`` is drawn for a prompt;
  R2  a row counts what holds nodes: pods, or whole copies, or groups that have their minimum;
  R3  a drawn tree is short: of many copies or groups, those that lack pods come first, and the rest
      is summed up. The rows have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from attrs import field, frozen

from gangsched.model import GroupKey
from gangsched.values.text import printable

__all__ = ["Tree", "TreeRow"]

_MOST: Final = 10
"""How many copies or groups side by side are drawn, each with a line of its own."""
_LACKING: Final = 8
"""How many of more copies or groups are drawn that lack pods."""
_ONE: Final = {"pods": "pod", "copies": "copy", "groups": "group"}
_HEADINGS: Final = ("PART", "ON NODES")
_BOXES: Final = ("├─ ", "└─ ", "│  ")


@final
@frozen(kw_only=True)
class TreeRow:
    """A group, or a part of one.

    Attributes:
        group: The key of the group.
        path: The path of the part in its group, such as ``decode/0``; empty for the whole group.
        depth: How many rows it is below: 0 for the first row.
        of: What it counts: ``pods``, ``copies`` of a role, or ``groups`` below a group of groups.
        held: How many of them hold nodes; of copies and groups, how many have all that they need.
        total: How many there are.
        needed: How many of them it needs.
        lacks: Whether what it needs does not hold nodes: of itself, or below it.
    """

    group: GroupKey
    path: str
    depth: int
    of: str
    held: int
    total: int
    needed: int
    lacks: bool

    @property
    def counts(self) -> str:
        """``2 of 4 copies, needs 3``; what it needs is left out if that is all there is."""
        what = _ONE.get(self.of, self.of) if self.total == 1 else self.of
        needs = "" if self.needed == self.total else f", needs {self.needed}"
        return f"{self.held} of {self.total} {what}{needs}"


@final
class Tree(tuple[TreeRow, ...]):
    """The rows of a group and of what is below it, as ``Scheduler.tree`` returns them."""

    __slots__ = ()

    @property
    def is_nested(self) -> bool:
        """Whether it has copies of a role, or groups below a group."""
        return any(row.of != "pods" for row in self)

    def lines(self, encoding: str | None = "utf-8") -> list[str]:
        """Return the drawn tree, with a heading.

        Args:
            encoding: That of what it is written to; None for any text. If it has no box characters,
                the tree is drawn without them.
        """
        if not self:
            return []
        marks = _BOXES if _has_boxes(encoding) else ("|- ", "`- ", "|  ")
        cells = [_HEADINGS, *_drawn(_nested(self), marks)]
        width = max(len(name) for name, _counts in cells)
        return [f"{name.ljust(width)}   {counts}".rstrip() for name, counts in cells]

    def __repr__(self) -> str:
        """Return the drawn tree."""
        return "\n".join(self.lines())

    def __str__(self) -> str:
        """Return the drawn tree."""
        return repr(self)


def _has_boxes(encoding: str | None) -> bool:
    try:
        "".join(_BOXES).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@final
@frozen
class _Node:
    """A line of a drawn tree, and those below it."""

    name: str
    counts: str
    row: TreeRow
    below: list[_Node] = field(factory=list["_Node"])


def _nested(rows: Sequence[TreeRow]) -> _Node:
    """Return rows as nodes; a row is below the last one that is less deep."""
    namespace = rows[0].group.partition("/")[0]
    open_nodes: list[_Node] = []
    for row in rows:
        name = row.path or row.group.removeprefix(f"{namespace}/")
        node = _Node(printable(name), row.counts, row)
        del open_nodes[row.depth :]
        if open_nodes:
            open_nodes[-1].below.append(node)
        open_nodes.append(node)
    return open_nodes[0]


def _drawn(
    node: _Node, marks: tuple[str, str, str], before: str = "", mark: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the name, with what is drawn before it, and the counts of a node and those below."""
    yield f"{before}{mark}{node.name}", node.counts
    branch, last, line = marks
    if mark:
        before += line if mark == branch else " " * len(line)
    below = _shortened(node)
    for number, child in enumerate(below, 1):
        yield from _drawn(child, marks, before, branch if number < len(below) else last)


def _shortened(node: _Node) -> list[_Node]:
    """Return what is drawn below a node: of many, those that lack pods come first."""
    if len(node.below) <= _MOST:
        return node.below
    lacking = [child for child in node.below if child.row.lacks]
    lacking.sort(key=lambda child: not child.row.held)  # those that run in part
    whole = [child for child in node.below if not child.row.lacks]
    shown, rest = lacking[:_LACKING], lacking[_LACKING:]
    if rest:
        shown.append(_summed(f"and {len(rest)} more", rest))
    if whole:
        shown.append(_summed(f"{len(whole)} more, whole", whole))
    return shown


def _summed(name: str, nodes: Iterable[_Node]) -> _Node:
    """Return one line for several nodes."""
    rows = [node.row for node in nodes]
    counts = ""
    if all(row.of == "pods" for row in rows):
        counts = f"{sum(row.held for row in rows)} of {sum(row.total for row in rows)} pods"
    return _Node(name, counts, rows[0])
