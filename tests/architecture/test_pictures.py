"""The pictures of the documentation are those of today's library, and say what happens."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from pictures import draw, levels, replicas, states
from pictures.moves import MEMBERS, QUEUE
from pictures.runs import GPU, Run, spans

RUNS = draw.runs()


@pytest.mark.parametrize("name", draw.drawn())
def test_picture_is_what_is_drawn_today(name: str) -> None:
    kept = (draw.STATIC / name).read_text(encoding="utf-8")

    assert kept == draw.drawn()[name], "out of date: in docs, python -m pictures"


def test_every_picture_is_shown_on_some_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in draw.DOCS.rglob("*.md"))

    assert [name for name in draw.drawn() if f"_static/{name}" not in pages] == []


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_drawn_held_in_vain_is_what_the_simulator_counts(run: Run) -> None:
    assert run.report is not None
    assert run.wasted() == run.report.summary.wasted.get(GPU, 0.0)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_no_gpu_is_drawn_twice_at_a_time(run: Run) -> None:
    for one in run.held:
        assert one.since < one.until
        assert set(one.lanes) < set(range(run.nodes[one.node])) or len(one.lanes) == 4
        for other in run.held:
            if one is not other and one.node == other.node and set(one.lanes) & set(other.lanes):
                assert one.until <= other.since or other.until <= one.since


def test_neighbouring_gpus_of_a_pod_are_one_bar() -> None:
    held = RUNS["gang"].held[0]

    assert list(spans(type(held)("j", "n", (0, 1, 3), 0.0, 1.0))) == [(0, 2), (3, 1)]


def test_comment_above_the_runs_matches_them() -> None:
    report = RUNS["pod_by_pod"].report
    assert report is not None
    deadlock = report.summary.deadlock

    assert deadlock is not None
    assert deadlock.since == 100.0
    assert sorted(deadlock.jobs) == ["default/E", "default/G"]
    for name in ("coscheduling", "gang"):
        assert len(RUNS[name].ended) == 8
        assert max(RUNS[name].ended.values()) == 160.0
    assert RUNS["gang"].wasted() == 0


def test_no_arrow_can_be_drawn_that_is_no_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MEMBERS", {m: w for m, w in MEMBERS.items() if m[1] != "waiting"})

    with pytest.raises(ValueError, match="no move from unscheduled to waiting"):
        states.member_states()


def test_every_state_and_place_is_drawn() -> None:
    for moves, picture in ((MEMBERS, states.member_states()), (QUEUE, states.queue_places())):
        boxes = set(re.findall(r'font-weight="bold">([\w ]+)<', picture))
        assert boxes == {name for move in moves for name in move}


# Replicas ---------------------------------------------------------------------------------------


def test_replicas_are_drawn_whole_and_next_to_each_other() -> None:
    run = replicas.run()
    for node in run.nodes:
        begun = [one for one in run.held if one.node == node and one.since < replicas.LOST]
        parts = [one.part for one in sorted(begun, key=lambda one: one.lanes)]
        assert parts == sorted(parts)
    first = Counter(one.part for one in run.held if one.since < replicas.LOST)
    assert first == {f"decode/{number}": 4 for number in range(3)}


def test_lost_worker_is_drawn_until_it_is_lost_and_from_when_it_is_there_again() -> None:
    first, again = (one for one in replicas.run().held if one.node == "r1" and one.lanes == (1,))
    assert (first.until, again.since) == (replicas.LOST, replicas.REPLACED)
    assert first.part == again.part == "decode/0"


def test_copies_have_labels_and_colours_of_their_own() -> None:
    picture = replicas.replicas()
    assert {f"decode/{number}" for number in range(4)} <= set(re.findall(r">([\w/]+)<", picture))
    pairs = re.findall(r'fill="(#\w+)"[^>]*/>\n<text[^>]*>(decode/\d)<', picture)
    fills = {part: fill for fill, part in pairs}
    assert len(set(fills.values())) == 4


# Levels -----------------------------------------------------------------------------------------


def test_captions_of_levels_say_which_gangs_are_in_two_blocks() -> None:
    def in_two_blocks(run: Run) -> set[str]:
        places = {(one.job.partition("/")[2], one.node[:2]) for one in run.held}
        count = Counter(job for job, _block in places)
        return {job for job, blocks in count.items() if blocks > 1}

    without, with_ = levels.runs().items()
    assert "A and C are in two blocks" in without[0]
    assert in_two_blocks(without[1]) == {"A", "C"}
    assert "each gang is in one block" in with_[0]
    assert in_two_blocks(with_[1]) == set()
    assert {len(run.ended) for run in (without[1], with_[1])} == {5}
