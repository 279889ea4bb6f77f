"""What would happen with other quotas, and how large they have to be for a gang to start."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    ClusterState,
    Insufficient,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Preemption,
    Quota,
    Reclaim,
    Scheduler,
    gang,
    presets,
)
from gangsched.explain import NotAdmitted
from gangsched.testing import make_node
from support.story import Story, Way, each_way

pytestmark = pytest.mark.once("the scheduler places whole gangs")

ORG = Quota(name="org")
A = Quota(name="a", parent="org", nominal={"cpu": 4})
B = Quota(name="b", parent="org", nominal={"cpu": 4})
NODE = Node(name=NodeName("more"), allocatable={"cpu": 2})
CAP = Quota(name="cap", namespaces=["default"], hard={"cpu": 4})


def shared(*quotas: Quota, cpus: int = 99, way: Way = Way.LIVE, **options: Any) -> Story:
    """Return a story of a scheduler with queues on one node."""

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(cluster, quotas=quotas, can_evict=True, **options)

    story = Story(make, way)
    story.tell(NodeAdded(make_node("n", cpu=cpus)))
    return story


def add(story: Story, name: str, queue: str | None, size: int, **more: Any) -> None:
    """Add a gang of one CPU each, and decide."""
    given: dict[str, Any] = {"cpu": 1, **more}
    story.tell(*gang(name, workers=size, queue=queue, created_at=story.now, **given).events())
    story.decide()


def with_nominal(story: Story, name: str, cpus: int) -> list[Quota]:
    quotas = story.scheduler.stated_quotas
    return [evolve(each, nominal={"cpu": cpus}) if each.name == name else each for each in quotas]


def smallest(story: Story, name: str, **named: Any) -> Insufficient:
    found = story.scheduler.smallest_change(f"default/{name}", NODE, **named)
    assert isinstance(found, Insufficient)
    return found


def what_helps(story: Story, name: str) -> str:
    """Return what is said of larger quotas."""
    return str(smallest(story, name)).partition("; it would start")[2].strip()


# What would happen with other quotas


@each_way
def test_question_with_other_quotas_is_answered_as_they_would_be_set(way: Way) -> None:
    story = shared(ORG, A, B, way=way)
    add(story, "long", "b", 6)
    add(story, "wanted", "a", 3)
    story.interrupt()
    before = json.dumps(story.scheduler.snapshot())
    larger = with_nominal(story, "a", 5)
    answer = story.scheduler.what_if(quotas=larger)
    assert answer.starts("default/wanted")
    assert not story.scheduler.what_if(quotas=with_nominal(story, "a", 4)).starts("default/wanted")
    assert not story.scheduler.what_if().starts("default/wanted")
    assert json.dumps(story.scheduler.snapshot()) == before
    assert story.scheduler.stated_quotas == (ORG, A, B)
    story.set_quotas(*larger)
    story.decide()
    assert len(story.bound) == 9


def test_events_are_handled_with_the_other_quotas() -> None:
    story = shared(ORG, A, B, cpus=8)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 2)
    quotas, event = with_nominal(story, "a", 6), NodeAdded(NODE)
    assert not story.scheduler.what_if(event).starts("default/wanted")
    assert not story.scheduler.what_if(quotas=quotas).starts("default/wanted")
    assert story.scheduler.what_if(event, quotas=quotas).starts("default/wanted")


def test_other_quotas_may_take_back_what_others_have_borrowed() -> None:
    story = shared(ORG, A, B, preemption=Preemption(reclaim=Reclaim.NOMINAL))
    add(story, "one", "b", 4)
    add(story, "two", "b", 4)
    add(story, "wanted", "a", 6)
    answer = story.scheduler.what_if(quotas=with_nominal(story, "a", 6))
    assert answer.starts("default/wanted")
    assert "two" in str(answer.effects)
    why = answer.why["default/two"]
    assert str(why).startswith("waiting for 4 more members")  # its pods are gone
    assert story.evicted == []


def test_pods_of_a_queue_that_would_be_gone_are_held() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 2)
    answer = story.scheduler.what_if(quotas=[ORG, B])
    assert answer.why["default/wanted"] == NotAdmitted("queue a does not exist")


def test_time_passes_with_the_other_quotas() -> None:
    story = shared(ORG, A, B, preemption=Preemption(reclaim=Reclaim.NOMINAL, delay=5.0))
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 6)
    quotas = with_nominal(story, "a", 8)
    assert not story.scheduler.what_if(quotas=quotas, until=4.0).starts("default/wanted")
    late = story.scheduler.what_if(quotas=quotas, until=20.0)
    assert late.starts("default/wanted")


@pytest.mark.parametrize(
    ("quotas", "message"),
    [
        (7, "quotas must be a sequence of Quotas, got 7"),
        ([A], "quotas[0].parent must be the name of a quota, got 'org'"),
    ],
)
def test_malformed_quotas_of_a_question_are_named(quotas: Any, message: str) -> None:
    story = shared(ORG, A, B)
    with pytest.raises(InvalidValueError) as raised:
        story.scheduler.what_if(quotas=quotas)
    assert str(raised.value) == message


def test_question_that_cannot_afford_other_quotas_says_so() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 2)
    quotas = with_nominal(story, "a", 9)
    answer = story.scheduler.what_if(quotas=quotas, budget=200)
    assert answer.exhausted
    assert not answer.effects
    assert not story.scheduler.what_if(quotas=quotas, budget=20_000).exhausted


# How large quotas have to be


def test_smallest_change_names_the_quota_that_keeps_the_gang_out() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 6)
    add(story, "wanted", "a", 3)
    found = smallest(story, "wanted")
    assert found.most == 0  # no number of nodes gives back a quota
    assert str(found) == (
        "no number of nodes would start pod group default/wanted by t=0s: not admitted: exceeded"
        " quota a: requested cpu=3, used cpu=0, limited cpu=2, nominal cpu=4; queue b has borrowed"
        " cpu=2, share 0.25 to 0.00; it would start if quota a had nominal cpu=5"
    )
    (larger,) = found.larger
    assert (larger.name, dict(larger.nominal), dict(larger.hard)) == ("a", {"cpu": 5000}, {})


@pytest.mark.parametrize(
    ("quotas", "queue", "what"),
    [
        ((CAP,), None, "if quota cap had hard cpu=6"),
        ((ORG, evolve(A, hard={"cpu": 5}), B), "a", "if quota a had hard cpu=6"),
        ((evolve(ORG, hard={"cpu": 3}), A, B), "a", "if quota org had hard cpu=6"),
        ((ORG, evolve(A, borrow={"cpu": 1}), B), "a", "if quota a had nominal cpu=5"),
        ((ORG, evolve(A, lend={"cpu": 1}), B, CAP), "a", "if quota cap had hard cpu=6"),
        (
            (ORG, evolve(A, hard={"cpu": 5}), evolve(B, lend={"cpu": 0})),
            "a",
            "if quota a had nominal cpu=6 and hard cpu=6",
        ),
    ],
)
def test_quota_is_as_large_as_it_has_to_be_and_no_larger(
    quotas: tuple[Quota, ...], queue: str | None, what: str
) -> None:
    story = shared(*quotas)
    add(story, "some", queue, 3)
    add(story, "wanted", queue, 3)
    assert what_helps(story, "wanted") == what


def test_another_gang_may_take_first_what_is_added() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 8)
    add(story, "first", "a", 1, priority=9)
    add(story, "wanted", "a", 2)
    assert what_helps(story, "wanted") == "if quota a had nominal cpu=7"


def test_gang_that_lacks_nodes_too_says_how_many() -> None:
    story = shared(ORG, A, B, cpus=8)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 3)
    found = smallest(story, "wanted")
    assert str(found).endswith("it would start with 2 more nodes if quota a had nominal cpu=7")
    assert found.nodes_besides == 2
    assert smallest(story, "wanted", most=1).larger == ()  # one node is not enough


def test_queue_that_may_reclaim_needs_no_more_than_the_gang_uses() -> None:
    story = shared(ORG, A, B, cpus=8, preemption=Preemption(reclaim=Reclaim.NOMINAL))
    add(story, "one", "b", 4)
    add(story, "two", "b", 4)
    add(story, "wanted", "a", 6)
    found = smallest(story, "wanted", most=3)
    assert str(found).endswith("it would start with 1 more node if quota a had nominal cpu=6")
    quotas = with_nominal(story, "a", 6)
    assert story.scheduler.what_if(NodeAdded(NODE), quotas=quotas).starts("default/wanted")


def test_change_is_not_known_once_the_budget_is_used_up() -> None:
    story = shared(ORG, A, B)
    add(story, "long", "b", 8)
    add(story, "wanted", "a", 3)
    found = smallest(story, "wanted", budget=300)
    assert found.larger == ()
    assert not found.exhausted
