"""How a group stands is what trying every way to give its members nodes says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.standing import Counts, standing

Leaves = dict[str, Counts]

few = st.integers(0, 2)


@st.composite
def trees(draw: st.DrawFn, key: str = "r", depth: int = 2) -> SubGroup:
    """Return a tree of a few leaves; some want only some of their children."""
    number = draw(st.integers(0, 3)) if depth else 0
    children = tuple(draw(trees(f"{key}/{n}", depth - 1)) for n in range(number))
    wanted = draw(st.integers(0, number)) if number else -1
    return SubGroup(key, draw(st.integers(0, 4)), children, wanted)


@st.composite
def groups(draw: st.DrawFn) -> tuple[SubGroup, Leaves]:
    tree = draw(trees().filter(lambda tree: len(tree.leaves) <= 4))
    return tree, {leaf.key: Counts(draw(few), draw(few), draw(few)) for leaf in tree.leaves}


def total(sub: SubGroup, leaves: Mapping[str, Counts]) -> Counts:
    return Counts(*map(sum, zip(*(leaves[leaf.key] for leaf in sub.leaves), strict=True)))


def meets(sub: SubGroup, leaves: Mapping[str, Counts]) -> bool:
    """Say whether a sub group has its minimum, from the words of the glossary."""
    held, pending, done = total(sub, leaves)
    if held + pending < sub.least:
        held += done
    met = sum(meets(child, leaves) for child in sub.children)
    return held >= sub.least and met >= sub.wanted


def moved(leaves: Leaves, most: Mapping[str, int]) -> Iterator[tuple[dict[str, int], Leaves]]:
    """Yield every way to give up to so many members of each leaf a node."""
    keys = list(leaves)
    for given_ in product(*(range(most[key] + 1) for key in keys)):
        more = dict(zip(keys, given_, strict=True))
        yield (
            more,
            {
                key: Counts(held + more[key], pending - more[key], done)
                for key, (held, pending, done) in leaves.items()
            },
        )


def none_starts_by_half(sub: SubGroup, more: Mapping[str, int], after: Leaves) -> bool:
    """Say whether each child that was given nodes has its minimum now."""
    return all(
        (meets(child, after) or not any(more[leaf.key] for leaf in child.leaves))
        and none_starts_by_half(child, more, after)
        for child in sub.children
    )


@given(groups())
def test_needed_is_the_least_number_of_members_that_have_to_get_nodes(
    group: tuple[SubGroup, Leaves],
) -> None:
    tree, leaves = group
    found = standing(tree, lambda sub: total(sub, leaves))
    most = dict.fromkeys(leaves, 8)
    enough = [sum(more.values()) for more, after in moved(leaves, most) if meets(tree, after)]
    assert max(found.needed, 0) == min(enough)
    assert found.is_met == meets(tree, leaves)


@given(groups())
def test_group_is_complete_exactly_if_some_of_its_members_can_start_it(
    group: tuple[SubGroup, Leaves],
) -> None:
    tree, leaves = group
    found = standing(tree, lambda sub: total(sub, leaves))
    most = {key: counts.pending for key, counts in leaves.items()}
    can_start = any(
        meets(tree, after) and none_starts_by_half(tree, more, after)
        for more, after in moved(leaves, most)
    )
    assert found.is_complete == can_start
