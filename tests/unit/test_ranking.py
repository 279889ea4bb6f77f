"""Classes of nodes are read by rank and first node, however they were added."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangsched.errors import InternalError
from gangsched.framework.nodes.node_class import NodeClass, Snapshot
from gangsched.framework.nodes.ranking import Ranking
from gangsched.model import Node, NodeName

SAMPLE = Snapshot(Node(name=NodeName("n")), {}, 0)
RANKS = st.integers(-3, 3)


class RankingMachine(RuleBasedStateMachine):
    """A ranking beside the list of what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.left: list[tuple[int, int, NodeClass]] = []
        self.has: list[tuple[int, int, NodeClass]] = []
        self.firsts: dict[NodeClass, int] = {}
        self.ranking = Ranking((), self.firsts)

    def _new(self) -> tuple[int, NodeClass]:
        self.made += 1
        # the first nodes are not in the order of arrival
        return self.made * 7 % 101 + 101 * (self.made // 101), NodeClass(None, self.made, SAMPLE)

    @rule(ranks=st.lists(RANKS, max_size=8))
    def start_anew(self, ranks: list[int]) -> None:
        self.has = [(rank, *self._new()) for rank in ranks]
        self.left = []
        self.firsts = {given: first for _rank, first, given in self.has}
        self.ranking = Ranking(iter(self.has), self.firsts)

    @rule(rank=RANKS)
    def add(self, rank: int) -> None:
        first, given = self._new()
        self.has.append((rank, first, given))
        self.firsts[given] = first
        self.ranking.add(rank, first, given)
        self.ranking.tidy()

    @precondition(lambda self: self.has)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        rank, first, given = self.has.pop(data.draw(st.integers(0, len(self.has) - 1)))
        del self.firsts[given]
        self.ranking.tidy()
        self.left.append((rank, first, given))

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        rank, first, given = self.left.pop(data.draw(st.integers(0, len(self.left) - 1)))
        self.has.append((rank, first, given))
        self.firsts[given] = first
        self.ranking.add(rank, first, given)
        self.ranking.tidy()

    @precondition(lambda self: self.has)
    @rule(data=st.data())
    def have_another_first_node(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.has) - 1))
        rank, _before, given = self.has[place]
        first, _class = self._new()
        self.has[place] = (rank, first, given)
        self.firsts[given] = first
        self.ranking.add(rank, first, given)
        self.ranking.tidy()

    def _wanted(self) -> list[tuple[int, NodeClass]]:
        return [(rank, given) for rank, _first, given in sorted(self.has, key=lambda e: e[:2])]

    @rule()
    def read_the_first(self) -> None:
        wanted = self._wanted()
        assert self.ranking.first() is (wanted[0][1] if wanted else None)

    @rule(rank=RANKS)
    def read_from_a_rank(self, rank: int) -> None:
        wanted = self._wanted()
        position = self.ranking.position(rank)
        found = list(self.ranking.since(position))
        assert found == [each for each in wanted if each[0] >= rank]
        backwards = list(self.ranking.before(position))
        levels = sorted({each[0] for each in wanted if each[0] < rank}, reverse=True)
        assert backwards == [each for level in levels for each in wanted if each[0] == level]

    @rule()
    def read_all(self) -> None:
        assert list(self.ranking) == self._wanted()

    @invariant()
    def is_sound(self) -> None:
        self.ranking._check()


TestRankingMachine = RankingMachine.TestCase


def lose_a_rank(ranking: Ranking) -> None:
    ranking._ranks.pop()


def miscount_the_entries(ranking: Ranking) -> None:
    ranking._entries = 2


def note_an_unknown_level(ranking: Ranking) -> None:
    ranking._empty[7] = None


def have_a_class_that_is_nowhere(ranking: Ranking) -> None:
    firsts: dict[NodeClass, int] = dict(ranking._firsts)
    ranking._firsts = firsts
    firsts[NodeClass(None, 9, SAMPLE)] = 9


def put_in_disorder(ranking: Ranking) -> None:
    ranking._levels[0].at.reverse()


def pass_a_node_over(ranking: Ranking) -> None:
    ranking._levels[0].start = 1


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (lose_a_rank, "are not those of the levels"),
        (miscount_the_entries, "there are 3 entries, more than 2"),
        (note_an_unknown_level, "a level that is not there is noted as empty"),
        (have_a_class_that_is_nowhere, "has not one rank"),
        (put_in_disorder, "the nodes of rank 0 are not in order"),
        (pass_a_node_over, "the nodes of rank 0 are passed over"),
    ],
)
def test_check_sees_a_ranking_that_drifted(sabotage: Callable[[Ranking], None], says: str) -> None:
    given = [(rank, n, NodeClass(None, n, SAMPLE)) for n, rank in enumerate([0, 1, 0])]
    ranking = Ranking(given, {each: n for _rank, n, each in given})
    assert [rank for rank, _given in ranking] == [0, 0, 1]
    ranking._check()
    sabotage(ranking)
    with pytest.raises(InternalError, match=says):
        ranking._check()


def test_entries_of_classes_that_left_are_passed_over_once_and_dropped() -> None:
    """To take each out of a sorted list of 5,000 took longer than to place a pod."""
    classes = [NodeClass(None, n, SAMPLE) for n in range(500)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((0, n, given) for given, n in firsts.items()), firsts)
    for n, given in enumerate(classes[:-1]):
        assert ranking.first() is given
        del firsts[given]
        ranking.tidy()
        ranking._check()
        line = ranking._levels[0].line
        assert len(line) <= 2 * (499 - n) + 64
    assert ranking.first() is classes[-1]


def test_class_that_comes_back_is_read_once() -> None:
    classes = [NodeClass(None, n, SAMPLE) for n in range(4)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((0, n, given) for given, n in firsts.items()), firsts)
    for n in (0, 1):
        assert ranking.first() is classes[n]
        del firsts[classes[n]]
        ranking.tidy()
    assert ranking.first() is classes[2]
    for n in (1, 0):
        firsts[classes[n]] = n
        ranking.add(0, n, classes[n])
        ranking.tidy()
        ranking._check()
        assert ranking.first() is classes[n]
    assert [given for _rank, given in ranking] == classes


def test_entries_of_classes_that_left_are_passed_over_once_by_readers_of_a_part() -> None:
    """A gang that is packed reads the best nodes of a level, and never the first alone."""
    classes = [NodeClass(None, n, SAMPLE) for n in range(300)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((0, n, given) for given, n in firsts.items()), firsts)
    for n, given in enumerate(classes[:60]):
        assert next(ranking.since(0)) == next(ranking.before(1)) == (0, given)
        assert ranking._levels[0].start == n
        del firsts[given]
        ranking.tidy()
    assert len(ranking._levels[0].line) == 300
    assert next(ranking.since(0)) == (0, classes[60])
    assert ranking._levels[0].start == 60
    ranking._check()


def test_class_that_left_and_came_back_before_there_was_a_reader_is_read_once() -> None:
    classes = [NodeClass(None, n, SAMPLE) for n in range(3)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((0, n, given) for given, n in firsts.items()), firsts)
    for given in (classes[1], classes[0]):
        n = firsts.pop(given)
        ranking.tidy()
        firsts[given] = n
        ranking.add(0, n, given)
        ranking.tidy()
        ranking._check()
    assert len(ranking._levels[0].line) == 5
    assert list(ranking) == [(0, given) for given in classes]
    assert len(ranking._levels[0].line) == 3
    ranking._check()


def test_level_that_no_reader_reads_drops_what_has_left() -> None:
    given = NodeClass(None, 0, SAMPLE)
    firsts = {given: 0}
    ranking = Ranking([(0, 0, given)], firsts)
    for n in range(500):
        firsts[given] = n + 1
        ranking.add(0, n + 1, given)
        ranking.tidy()
        assert len(ranking._levels[0].line) <= 2 + 64
    assert list(ranking) == [(0, given)]
    level = ranking._levels[0]
    assert (level.at[level.start :], level.line[level.start :]) == ([500], [given])


def test_level_without_a_class_is_dropped_when_a_reader_has_passed_it() -> None:
    """A ranking is not told that a class leaves, so readers say which levels they found empty."""
    classes = [NodeClass(None, n, SAMPLE) for n in range(3)]
    firsts = {given: n for n, given in enumerate(classes)}
    ranking = Ranking(((n, n, given) for given, n in firsts.items()), firsts)
    del firsts[classes[0]]
    ranking.tidy()
    assert list(ranking._ranks) == [0, 1, 2]  # there was no reader
    assert ranking.first() is classes[1]
    assert ranking.first() is classes[1]
    ranking._check()
    ranking.tidy()
    assert list(ranking._ranks) == list(ranking._levels) == [1, 2]
    del firsts[classes[1]]
    assert list(ranking.before(2)) == [(2, classes[2])]
    firsts[classes[1]] = 1
    ranking.add(1, 1, classes[1])
    ranking.tidy()  # a class came into the level after it was found empty
    assert list(ranking) == [(1, classes[1]), (2, classes[2])]
    ranking._check()


def test_levels_that_no_reader_reads_are_dropped_with_their_last_entries() -> None:
    given = NodeClass(None, 0, SAMPLE)
    firsts = {given: 0}
    ranking = Ranking([(0, 0, given)], firsts)
    for n in range(500):  # each time it is another class, with another rank
        del firsts[given]
        given = NodeClass(None, n + 1, SAMPLE)
        firsts[given] = 0
        ranking.add(n + 1, 0, given)
        ranking.tidy()
        assert len(ranking._levels) == len(ranking._ranks) <= 2 + 64
        ranking._check()
    assert list(ranking) == [(500, given)]
