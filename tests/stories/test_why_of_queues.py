"""What ``why`` says of other queues: who has borrowed, what may be borrowed, and who is next."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gangsched import ClusterState, NodeAdded, Quota, Scheduler, gang, presets
from gangsched.explain import NotAdmitted, Queued, QueueTurn, Why
from gangsched.testing import make_node
from support.story import Story, Way, each_way

pytestmark = pytest.mark.once("the scheduler places whole gangs")

ORG = Quota(name="org")
A = Quota(name="a", parent="org", nominal={"cpu": 4})
B = Quota(name="b", parent="org", nominal={"cpu": 4})
C = Quota(name="c", parent="org", nominal={"cpu": 0})


def shared(*quotas: Quota, way: Way = Way.LIVE, **options: Any) -> Story:
    """Return a story of a scheduler with queues on one large node."""

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, quotas=quotas, can_evict=True, **options)

    story = Story(make, way)
    story.tell(NodeAdded(make_node("n", cpu=99)))
    return story


def add(story: Story, name: str, queue: str, size: int, **more: Any) -> None:
    """Add a gang of one CPU each, and decide."""
    given: dict[str, Any] = {"cpu": 1, **more}
    story.tell(*gang(name, workers=size, queue=queue, created_at=story.now, **given).events())
    story.decide()


def why(story: Story, name: str) -> Why:
    return story.scheduler.why(f"default/{name}")


def said(story: Story, name: str) -> str:
    """Return what is said beside the reason why a gang waits for its quota."""
    answer = why(story, name)
    assert isinstance(answer, NotAdmitted)
    return "" if answer.turn is None else str(answer.turn)


def turn(story: Story, name: str) -> QueueTurn:
    answer = why(story, name)
    assert isinstance(answer, NotAdmitted | Queued)
    assert answer.turn is not None
    return answer.turn


@each_way
def test_gang_names_the_queues_that_have_borrowed_what_it_lacks(way: Way) -> None:
    story = shared(ORG, A, B, way=way)
    add(story, "long", "b", 6)
    add(story, "wanted", "a", 3)
    story.interrupt()
    assert str(why(story, "wanted")) == (
        "not admitted: exceeded quota a: requested cpu=3, used cpu=0, limited cpu=2, nominal cpu=4;"
        " queue b has borrowed cpu=2, share 0.25 to 0.00"
    )
    pending = story.scheduler.pending()
    assert [row.why for row in pending] == [why(story, "wanted")]
    assert "queue b has borrowed cpu=2" in str(pending)
    (borrower,) = turn(story, "wanted").borrowers
    assert (borrower.name, borrower.share, borrower.own_share) == ("b", 0.25, 0.0)
    assert (borrower.beside, dict(borrower.borrowed)) == ("a", {"cpu": 2000})


def test_queue_with_the_largest_share_is_named_first_and_no_more_than_two_are() -> None:
    others = [evolve(B, name=f"b{n}", nominal={"cpu": 2}) for n in range(3)]
    story = shared(ORG, evolve(A, nominal={"cpu": 6}), *others)
    for n, size in enumerate((3, 5, 4)):
        add(story, f"long-{n}", f"b{n}", size)
    add(story, "wanted", "a", 1)
    assert said(story, "wanted") == (
        "queue b1 has borrowed cpu=3, share 0.25 to 0.00;"
        " queue b2 has borrowed cpu=2, share 0.17 to 0.00; and 1 more"
    )
    assert [each.name for each in turn(story, "wanted").borrowers] == ["b1", "b2"]
    assert turn(story, "wanted").others == 1


def test_queue_beside_one_above_is_named_with_the_one_that_it_is_beside() -> None:
    story = shared(
        *(ORG, Quota(name="lab", parent="org"), evolve(A, parent="lab"), evolve(B, parent="lab")),
        evolve(C, nominal={"cpu": 1}),
    )
    add(story, "long", "c", 6)
    add(story, "wanted", "a", 4)
    assert said(story, "wanted") == "queue c has borrowed cpu=5, share 0.56 to 0.00 of lab"
    (borrower,) = turn(story, "wanted").borrowers
    assert borrower.beside == "lab"


def test_queue_that_may_not_borrow_more_says_how_much_it_may() -> None:
    story = shared(ORG, evolve(A, borrow={"cpu": 2}), B)
    add(story, "long", "a", 5)
    add(story, "wanted", "a", 2)
    assert said(story, "wanted") == "queue a borrows cpu=1 of at most cpu=2"
    assert turn(story, "wanted").borrowers == ()  # they would not give it more
    story = shared(
        ORG, Quota(name="lab", parent="org", borrow={"cpu": 1}), B, evolve(A, parent="lab")
    )
    add(story, "long", "a", 5)
    add(story, "wanted", "a", 1)
    assert said(story, "wanted") == "queue lab borrows cpu=1 of at most cpu=1"


def test_gang_waits_behind_the_queue_with_the_smallest_share_that_has_gangs() -> None:
    story = shared(ORG, A, B, C)
    add(story, "one", "a", 5)
    add(story, "two", "c", 3)
    add(story, "more", "c", 1)
    assert said(story, "more") == "queue a has borrowed cpu=1, share 0.12 to 0.38"
    add(story, "other", "a", 1)
    assert said(story, "more").endswith("waits behind queue a, share 0.12 to 0.38")
    assert "waits behind" not in said(story, "other")
    story.delete("one-0", "one-1", "one-2", "one-3", "one-4")
    story.decide()
    assert "other-0" in story.bound  # and so it was


def test_gang_is_behind_no_queue_whose_gang_is_more_than_it_ever_has() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 8)
    add(story, "huge", "a", 9)
    add(story, "more", "b", 1)
    assert said(story, "more") == said(story, "huge") == ""


def test_gang_in_the_queue_says_which_queue_is_tried_before_its_own() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "a", 5)
    for name, queue in (("more", "a"), ("other", "b")):
        story.tell(*gang(name, workers=1, cpu=1, queue=queue).events())
    answer = why(story, "more")
    assert str(answer) == (
        "queued, 1 ahead; queue a: used cpu=5, limited cpu=8, nominal cpu=4;"
        " waits behind queue b, share 0.00 to 0.12"
    )
    assert str(why(story, "other")) == "queued, 0 ahead"


def test_history_counts_for_who_is_next_and_not_for_what_is_borrowed() -> None:
    story = shared(ORG, A, B, history=10.0)
    add(story, "long", "b", 8)
    story.run(10.0)
    story.delete(*(f"long-{n}" for n in range(8)))
    add(story, "big", "a", 7)
    add(story, "more", "b", 2)
    add(story, "again", "a", 2)
    assert said(story, "more") == "queue a has borrowed cpu=3, share 0.38 to 0.00"
    assert said(story, "again").endswith("waits behind queue b, share 0.00 to 0.38")


@pytest.mark.parametrize(
    "quotas",
    [
        (ORG, evolve(A, hard={"cpu": 1}), B),
        (evolve(ORG, hard={"cpu": 8}), A, B),
        (Quota(name="cap", namespaces=["default"], hard={"cpu": 8}), ORG, A, B),
    ],
    ids=["own", "above", "namespace"],
)
def test_nothing_is_said_of_others_where_a_hard_limit_decides(quotas: tuple[Quota, ...]) -> None:
    story = shared(*quotas)
    add(story, "long", "b", 7)
    add(story, "wanted", "a", 2)
    assert "nominal" not in str(why(story, "wanted"))
    assert said(story, "wanted") == ""


def test_elastic_member_that_waits_for_its_quota_says_who_has_borrowed() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 7)
    add(story, "wanted", "a", 2, min_available=1)
    assert "wanted-0" in story.bound
    assert str(why(story, "wanted")).endswith("queue b has borrowed cpu=3, share 0.38 to 0.00")


def test_answers_are_equal_whatever_the_shares_are_and_a_question_changes_nothing() -> None:
    story = shared(ORG, A, B, history=10.0)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 1)
    before = json.dumps(story.scheduler.snapshot())
    answer = why(story, "wanted")
    assert isinstance(answer, NotAdmitted)
    assert answer == NotAdmitted(answer.reason)
    assert story.scheduler.what_if(until=100.0).why["default/wanted"] == answer
    assert json.dumps(story.scheduler.snapshot()) == before


def test_figures_of_the_reason_are_of_now_whenever_it_was_asked_about() -> None:
    story = shared(ORG, A, evolve(B, lend={"cpu": 0}))
    for name, size in (("some", 3), ("first", 3), ("second", 3)):
        add(story, name, "a", size)
    assert "used cpu=3, limited cpu=4" in str(why(story, "second"))
    add(story, "one", "a", 1)  # it fits, so none of those that wait is asked again
    for name in ("first", "second"):
        assert "used cpu=4, limited cpu=4" in str(why(story, name))
