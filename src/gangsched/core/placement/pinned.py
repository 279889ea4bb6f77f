"""Where running members keep the others of a gang: the one answer to which domains it is bound to.

Placement asks it, and so does the demand of a gang: a gang that is kept somewhere else than before,
because a node has another label or a member has ended, asks for something else. Terminating members
keep no others at their domain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from attrs import frozen

from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import NodeTable
from gangsched.core.records.gang import GangRecord
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.group_info import HOLDING

__all__ = ["Limit", "holding_by_leaf", "name_of", "pinned_to"]


@final
@frozen
class Limit:
    """Where the other members of a gang keep one: the domains of a level; none for none.

    Attributes:
        level: The level.
        domains: Its domains that have a running member, or those that have none.
        is_apart: Whether they are those that have none.
    """

    level: str
    domains: tuple[Domain, ...]
    is_apart: bool = False

    def slots(self, table: NodeTable) -> set[int]:
        """Return the nodes in the domains. O(nodes there)."""
        return {slot for domain in self.domains for slot in table.domains.slots(domain)}

    def reason(self, table: NodeTable) -> str:
        """Return why nodes refuse the member that are in none of the domains."""
        if self.is_apart:
            where = f"a {self.level} that no other member has"
        elif not self.domains:
            where = f"the {self.level} of its members, whose nodes have no such label"
        else:
            values = (name_of(table, domain) for domain in self.domains)
            where = f"{self.level}={'|'.join(sorted(values))}"
        return f"node(s) not within {where}"


def pinned_to(
    gang: GangRecord,
    tree: SubGroup,
    table: NodeTable,
    under: Domain = EVERYWHERE,
    level: str | None = None,
    placed: Iterable[int] = (),
) -> list[Domain] | None:
    """Return the domains in which members of a sub group run; None if none of them runs.

    None of them is known if all of their nodes are gone or lack a label. Then no node is in one
    domain with them.

    Runtime complexity: O(members).

    Args:
        gang: The gang.
        tree: A sub group of it with a constraint.
        table: The nodes.
        under: The domain that was chosen for the sub group above it.
        level: Of which level the domains are; None for that of the constraint.
        placed: The nodes of members that count as if they ran.
    """
    within = tree.within
    assert within is not None
    level = level or within.level
    keys = {leaf.key for leaf in tree.leaves}
    members = gang.members.values()
    slots = [r.slot for r in members if r.leaf in keys and r.slot >= 0 and r.state in HOLDING]
    slots += placed
    if not slots:
        return None
    found = dict.fromkeys(table.domains.around(slot, level, under) for slot in slots)

    def name(domain: Domain) -> Any:
        return name_of(table, domain)

    return sorted([domain for domain in found if domain is not None], key=name)


def name_of(table: NodeTable, domain: Domain) -> str:
    """Return the value of a domain: of the label of its level, or the name of a node."""
    return table.names[domain] if isinstance(domain, int) else table.domains.name(domain)


def holding_by_leaf(gang: GangRecord) -> dict[str, int]:
    """Return how many members of each leaf hold nodes. O(members)."""
    found: dict[str, int] = {}
    for record in gang.members.values():
        if record.state in HOLDING:
            found[record.leaf] = found.get(record.leaf, 0) + 1
    return found
