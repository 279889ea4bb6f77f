"""A queue of another project that is being read, and what is common to the trees of all projects.

Rules:
  R1  a queue that cannot be had here as its project means it is left out, with all below it: the
      scheduler holds the pods of a queue that does not exist. A note says why;
  R2  in the trees of most projects, what a parent has includes what its children have. Here it is
      beside that of its children, so it is subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from attrs import define, field

from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.options.quota import Quota, ReclaimFrom
from gangsched.resources import Resources, with_zeros

__all__ = ["Draft", "Drafts", "cluster_key"]

Amounts = dict[str, int]

_NO_CHILDREN: Final[Mapping[str, int]] = {}


@final
@define(eq=False)
class Draft:
    """A queue that is being read; amounts are in thousandths.

    Attributes:
        name: The name of the quota.
        document: The object that states it.
        parent: The name of the quota above; None for a root.
        nominal: What it has, with its children if its project says so; None without a part.
        hard: Its limits.
        borrow: How much it may borrow.
        lend: How much it lends.
        weight: Its weight.
        reclaim_from: From whom its pods reclaim.
        namespaces: The namespaces whose pods are in it.
    """

    name: str
    document: Field
    parent: str | None = None
    nominal: Amounts | None = None
    hard: Amounts = field(factory=dict[str, int])
    borrow: Amounts = field(factory=dict[str, int])
    lend: Amounts = field(factory=dict[str, int])
    weight: float = 1.0
    reclaim_from: ReclaimFrom = ReclaimFrom.ANY
    namespaces: tuple[str, ...] = ()

    def quota(self) -> Quota:
        """Return the quota.

        Raises:
            ManifestError: Its values make up no quota.
        """
        nominal = None if self.nominal is None else _with_zeros(self.nominal)
        try:
            return Quota(
                name=self.name,
                namespaces=self.namespaces,
                hard=_with_zeros(self.hard),
                parent=self.parent,
                nominal=nominal,
                borrow=_with_zeros(self.borrow),
                lend=_with_zeros(self.lend),
                weight=self.weight,
                reclaim_from=self.reclaim_from,
            )
        except InvalidValueError as error:
            raise self.document.refuse_as(error) from error


@final
class Drafts:
    """The queues of a project while they are read.

    Attributes:
        by_name: The queues.
        notes: Sentences about what has no meaning here.
        held: By the name of a queue that is left out, why.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Draft] = {}
        self.notes: list[str] = []
        self.held: dict[str, str] = {}

    def note(self, document: Field, sentence: str) -> None:
        """Add a sentence about an object."""
        kind, name = document["kind"].text(), cluster_key(document)
        source = document.source
        self.notes.append(f"{source.file}: document {source.document}: {kind} {name}: {sentence}")

    def note_rest(self, of: Field, document: Field, *known: str) -> None:
        """Add a note for each field of a mapping that is given and not known."""
        for name, each in of.entries():
            if name not in known and each.value not in (None, [], {}, "", False):
                self.note(document, f"{each.path} has no meaning here")

    def put(self, draft: Draft) -> None:
        """Add a queue.

        Raises:
            ManifestError: Another one has its name.
        """
        if draft.name in self.by_name:
            raise draft.document["metadata"]["name"].refuse("a name that no other queue has")
        self.by_name[draft.name] = draft

    def leave_out(self, name: str, why: str) -> None:
        """Leave out a queue, so that its pods are held."""
        self.hold(name, self.by_name.pop(name).document, why)

    def hold(self, name: str, document: Field, why: str) -> None:
        """Hold the pods that name a queue."""
        self.held[name] = why
        self.note(document, f"{why}, so the pods of its queue are held")

    def leave_out_lost(self) -> None:
        """Leave out the queues of which a parent is missing, or below itself. O(queues x depth)."""
        for draft in [*self.by_name.values()]:
            problem = self._lost(draft)
            if problem:
                self.leave_out(draft.name, problem)

    def _lost(self, draft: Draft) -> str:
        above, parent = {draft.name}, draft.parent
        while parent is not None:
            if parent in above:
                return f"{parent} is above itself"
            if parent not in self.by_name:
                return f"{parent}, which is above it, does not exist or is held"
            above.add(parent)
            parent = self.by_name[parent].parent
        return ""

    def children(self, name: str) -> list[Draft]:
        """Return the queues right below one. O(queues)."""
        return [each for each in self.by_name.values() if each.parent == name]

    def path(self, draft: Draft) -> Iterator[Draft]:
        """Yield a queue and those above it, once none is lost."""
        yield draft
        while draft.parent is not None:
            draft = self.by_name[draft.parent]
            yield draft

    def give_part(self) -> None:
        """Give a queue that states nothing a part in what a queue above it has."""
        parts = {each.name for each in self.by_name.values() if each.nominal is not None}
        for draft in self.by_name.values():
            if draft.nominal is None and any(each.name in parts for each in self.path(draft)):
                draft.nominal = {}

    def subtract_children(self) -> None:
        """Take what its children have from what each queue has. O(queues)."""
        below: dict[str, Amounts] = {}
        for draft in self.by_name.values():
            if draft.parent is not None and draft.nominal is not None:
                amounts = below.setdefault(draft.parent, {})
                for resource, amount in draft.nominal.items():
                    amounts[resource] = amounts.get(resource, 0) + amount
        for draft in self.by_name.values():
            if draft.nominal is not None:
                less = below.get(draft.name, _NO_CHILDREN)
                draft.nominal = {r: max(0, n - less.get(r, 0)) for r, n in draft.nominal.items()}

    def quotas(self) -> tuple[Quota, ...]:
        """Return the quotas, by name.

        Raises:
            ManifestError: The values of one make up no quota.
        """
        return tuple(draft.quota() for _name, draft in sorted(self.by_name.items()))


def cluster_key(document: Field) -> str:
    """Return the namespace and the name of an object, or its name alone."""
    metadata = document["metadata"]
    name, namespace = metadata["name"].text(), metadata["namespace"].text()
    return f"{namespace}/{name}" if namespace else name


def _with_zeros(amounts: Amounts) -> Resources:
    """Return amounts in which zero is an amount, too: it limits."""
    return with_zeros(Resources.from_milli(amounts), amounts)
