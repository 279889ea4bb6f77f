"""What the largest members request with which a tree is met, against every choice of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import Resources, Role
from gangsched.core.admission.largest import most
from gangsched.primitives.gang_tree import SubGroup, tree_of
from support.examples import one_in

Pods = tuple[tuple[str, int], ...]


@st.composite
def cases(draw: Any) -> tuple[SubGroup, Pods]:
    """Draw a tree with copies of a role beside another role, and what its members request."""
    count = draw(st.integers(1, 3))
    wanted = draw(st.integers(1, count))
    inner = {"a": 1, **({"b": 1} if draw(st.booleans()) else {})}
    roles: dict[str, int | Role] = {"copy": Role(count, wanted, roles=inner), "x": 1}
    least = wanted * len(inner) + 1
    pods = [(f"copy/{n}/{role}", draw(st.integers(1, 4))) for n in range(count) for role in inner]
    pods += [("x", draw(st.integers(1, 4))) for _ in range(draw(st.integers(1, 2)))]
    return tree_of(draw(st.integers(least, len(pods))), roles), tuple(pods)


def choices(tree: SubGroup, pods: Pods) -> Iterator[tuple[int, ...]]:
    """Yield every smallest choice of members, by place, that meets a sub group."""
    if not tree.children:
        own = [n for n, (role, _cpu) in enumerate(pods) if role == tree.role]
        yield from combinations(own, tree.least)
        return
    for chosen in combinations(tree.children, tree.wanted):
        for parts in product(*(list(choices(child, pods)) for child in chosen)):
            found = tuple(n for part in parts for n in part)
            below = {leaf.role for leaf in tree.leaves}
            left = [n for n, (role, _c) in enumerate(pods) if role in below and n not in found]
            for others in combinations(left, max(tree.least - len(found), 0)):
                yield (*found, *others)


@one_in(1)
@given(cases())
@example((tree_of(1, {"copy": Role(2, 1, roles={"a": 1})}), (("copy/0/a", 1), ("copy/1/a", 3))))
def test_most_is_what_some_choice_requests_and_none_requests_more(
    case: tuple[SubGroup, Pods],
) -> None:
    tree, pods = case
    lacks = {sub.key: sub.least for sub in tree.sub_groups()}
    members = [(role, Resources({"cpu": cpu})) for role, cpu in pods]
    amounts = [sum(pods[n][1] for n in chosen) for chosen in choices(tree, pods)]
    assert most(tree, members, lacks) == Resources({"cpu": max(amounts)})
