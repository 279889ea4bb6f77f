"""Law 3: where the published texts define no order, and that the page on it is right.

Each counter-example is searched again, shrunk, compared with an exhaustive search, and then looked
up in ``docs/explanation/differences-from-the-proposal.md``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st

from gangsched import GroupKey, Order, Pod, QueuedPod
from gangsched._core._ordering import less, sort_key
from gangsched.plugins import QOSSort
from gangsched.testing import check_less
from support.documents import ROOT
from support.proposal_2020 import TextGroup, TextPod, final_text, first_text, qos_example
from support.views import FakeEntity, FakeGroup

pytestmark = pytest.mark.once("makes no scheduler")


PAGE = ROOT / "docs" / "explanation" / "differences-from-the-proposal.md"
LATEST = 3
"""The last of the instants that are tried: 0, 1, 2, 3."""

Less = Callable[[TextPod, TextPod], bool]
Queue = tuple[TextPod, TextPod, TextPod]
Flaw = Callable[[Less, Queue], bool]
TEXTS = pytest.mark.parametrize("text", [first_text, final_text], ids=["first", "final"])


def queue(group_times: tuple[int, ...], groups: tuple[int, ...], times: tuple[int, ...]) -> Queue:
    """Return three pods, each of no group (0), of A (1) or of B (2)."""
    known = (None, TextGroup("A", group_times[0]), TextGroup("B", group_times[1]))
    a, b, c = (TextPod("", at, known[group]) for group, at in zip(groups, times, strict=True))
    return a, b, c


def is_possible(pods: Queue) -> bool:
    """A group's time is that of its first encounter: no member was tried before."""
    return all(pod.group is None or pod.group.at <= pod.at for pod in pods)


def is_cycle(before: Less, pods: Queue) -> bool:
    """Each goes before the next, and the last before the first."""
    a, b, c = pods
    return before(a, b) and before(b, c) and before(c, a)


def is_neither_first_nor_equal(before: Less, pods: Queue) -> bool:
    """The middle one is level with both others, which are not level with each other."""
    a, b, c = pods
    level = not (before(a, b) or before(b, a) or before(b, c) or before(c, b))
    return level and before(a, c)


def is_parted(before: Less, pods: Queue) -> bool:
    """They are in order, with another entity between two members of one group."""
    a, b, c = pods
    in_order = not (before(b, a) or before(c, b) or before(c, a))
    return in_order and a.group is not None and a.group is c.group is not b.group


def is_interleaved(before: Less, pods: Queue) -> bool:
    """They are in order, and a member of another group is between them."""
    return is_parted(before, pods) and pods[1].group is not None


def every_queue() -> Iterator[Queue]:
    """Yield every queue of three, the smallest first."""
    instants = range(LATEST + 1)
    for group_times in itertools.product(instants, repeat=2):
        for groups in itertools.product(range(3), repeat=3):
            for times in itertools.product(instants, repeat=3):
                yield queue(group_times, groups, times)


instants = st.integers(0, LATEST)
queues = st.builds(
    queue,
    st.tuples(instants, instants),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.tuples(instants, instants, instants),
).filter(is_possible)


def has(flaw: Flaw, text: Less) -> bool:
    return any(is_possible(pods) and flaw(text, pods) for pods in every_queue())


def turned(pods: Queue) -> Queue:
    """Return a cycle from its regular pod on."""
    a, b, c = pods
    return pods if a.group is None else turned((b, c, a))


def said(pods: Queue) -> list[str]:
    """Return how the page calls three pods."""
    return [
        f"a regular pod of time {pod.at:g}"
        if pod.group is None
        else f"a member of time {pod.at:g} of group {pod.group.uid} of time {pod.group.at:g}"
        for pod in pods
    ]


EXAMPLES: list[tuple[Flaw, Less, str]] = [
    (is_neither_first_nor_equal, first_text, "{1} is level with {0}, and with {2}"),
    (is_parted, first_text, "{0}, {1} and {2}, in this order, are sorted"),
    (is_cycle, final_text, "{0} goes before {1}, that one before {2}, and that one before"),
    (is_interleaved, final_text, "{0}, {1} and {2}, in this order, are sorted"),
]


@pytest.mark.parametrize(("flaw", "text", "sentence"), EXAMPLES)
def test_smallest_counter_example_is_the_one_on_the_page(
    flaw: Flaw, text: Less, sentence: str
) -> None:
    """F56; §5.2 of the proposal's defects, 16 to 20."""
    fixed = settings(max_examples=5_000, derandomize=True, database=None)
    found = find(queues, lambda pods: flaw(text, pods), settings=fixed)
    smallest = next(pods for pods in every_queue() if is_possible(pods) and flaw(text, pods))
    if flaw is is_cycle:
        found, smallest = turned(found), turned(smallest)
    assert found == smallest
    expected = sentence.format(*said(found))
    page = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    assert expected.casefold() in page.casefold()


def test_first_published_text_has_no_cycle_and_the_final_one_mends_it() -> None:
    assert not has(is_cycle, first_text)
    assert not has(is_interleaved, first_text)
    assert has(is_cycle, final_text)
    assert has(is_interleaved, final_text)


def ours(pods: Queue) -> list[QueuedPod]:
    """Return the same three pods as the library has them."""
    groups = {
        pod.group.uid: FakeGroup(
            key=GroupKey(f"ns/{pod.group.uid}"),
            uid=ord(pod.group.uid),
            created_at=pod.group.at,
            last_failure_at=pod.group.at,
        )
        for pod in pods
        if pod.group is not None
    }
    return [
        QueuedPod(
            pod=Pod(name=f"p{seq}", created_at=pod.at),
            seq=seq,
            queued_at=pod.at,
            group=None if pod.group is None else groups[pod.group.uid],
        )
        for seq, pod in enumerate(pods)
    ]


@TEXTS
@pytest.mark.parametrize("order", Order)
def test_our_order_is_strict_where_the_published_text_is_not(text: Less, order: Order) -> None:
    """Every queue of three in which a text fails, in whichever way."""
    flaws = (is_cycle, is_neither_first_nor_equal, is_parted)
    failing = [
        pods
        for pods in every_queue()
        if is_possible(pods) and any(flaw(text, pods) for flaw in flaws)
    ]
    assert failing
    for pods in failing:
        mine = ours(pods)
        check_less(lambda a, b: less(a, b, order=order), mine)
        middle = sorted(mine, key=lambda pod: sort_key(pod, order=order))[1]
        owners = [pod.group for pod in mine if pod is not middle]
        assert owners[0] is None or owners[0] is not owners[1] or owners[0] is middle.group


# The example of a queue sort ------------------------------------------------------------------


def guaranteed(name: str) -> Pod:
    amounts = {"cpu": 1, "memory": 1}
    return Pod(name=name, requests=amounts, limits=amounts)


def test_published_example_says_before_both_ways_for_two_guaranteed_pods() -> None:
    a, b = guaranteed("a"), guaranteed("b")
    assert qos_example(a, b)
    assert qos_example(b, a)
    assert qos_example(a, a)
    assert "says “before” both ways" in PAGE.read_text(encoding="utf-8")


def test_published_example_answers_for_every_other_pair_of_classes() -> None:
    """It is not only the Guaranteed ones: nowhere does it ask whether two are alike."""
    kinds = [guaranteed("a"), Pod(name="b", requests={"cpu": 1}), Pod(name="c")]
    for a, b in itertools.product(kinds, repeat=2):
        assert qos_example(a, b) is (a.qos_class <= b.qos_class)


@pytest.mark.parametrize(("earlier", "later"), [((1.0, 2), (2.0, 1)), ((1.0, 1), (1.0, 2))])
def test_qos_sort_breaks_ties_by_time_then_arrival(
    earlier: tuple[float, int], later: tuple[float, int]
) -> None:
    a, b = (FakeEntity(pod=guaranteed("p"), queued_at=at, seq=seq) for at, seq in (earlier, later))
    rank = QOSSort().queue_sort
    assert rank(a) < rank(b)
    assert not rank(b) < rank(a)
    assert not rank(a) < rank(a)
