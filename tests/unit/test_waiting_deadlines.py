"""The deadlines of the waiting map: a heap that drops entries late."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched._core._waiting import WaitingMap
from gangsched.model import NodeName, PodUID

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "remove", "postpone", "expire"]),
        st.integers(0, 5),
        st.integers(0, 4).map(float),
    ),
    max_size=60,
)


@given(STEPS)
def test_pods_expire_in_the_order_of_deadline_and_arrival(
    steps: list[tuple[str, int, float]],
) -> None:
    waiting, expected, now = WaitingMap(), dict[PodUID, tuple[float, int]](), 0.0
    for number, (what, index, seconds) in enumerate(steps):
        uid = PodUID(f"p{index}")
        pod = waiting.get(uid)
        if what == "wait" and pod is None:
            waiting.wait(uid, node=NodeName("n"), timeout=seconds, now=now)
            expected[uid] = (now + seconds, number)
        elif what == "remove":
            waiting.remove(uid)
            expected.pop(uid, None)
        elif what == "postpone" and pod is not None:
            waiting.replace(evolve(pod, deadline=now + seconds))
            expected[uid] = (now + seconds, expected[uid][1])
        elif what == "expire":
            now += seconds
            due = sorted((key, uid) for uid, key in expected.items() if key[0] <= now)
            assert [each.uid for each in waiting.expire(now=now)] == [uid for _key, uid in due]
            for _key, each in due:
                del expected[each]
        waiting._check()
        assert waiting.next_deadline() == min((key[0] for key in expected.values()), default=None)


def test_deadlines_of_pods_that_wait_no_more_are_few() -> None:
    waiting = WaitingMap()
    for n in range(1000):
        waiting.wait(PodUID(f"p{n}"), node=NodeName("n"), timeout=600.0, now=0.0)
    for n in range(999):
        waiting.remove(PodUID(f"p{n}"))
        waiting._check()
    assert len(waiting._deadlines) < 100
    waiting.remove(PodUID("p999"))
    assert not waiting._deadlines
    for n in range(1000):
        waiting.wait(PodUID("again"), node=NodeName("n"), timeout=600.0 + n, now=0.0)
        waiting.wait(PodUID("stays"), node=NodeName("n"), timeout=1.0, now=0.0)
        waiting.remove(PodUID("again"))
        waiting.remove(PodUID("stays"))
        waiting._check()


def test_waits_that_began_at_this_instant_stay_in_order() -> None:
    waiting = WaitingMap()
    for n, since in enumerate((0.0, 5.0, 0.0, 5.0)):
        waiting.wait(PodUID(f"p{n}"), node=NodeName("n"), timeout=5.0 - since, now=since)
    assert [pod.uid for pod in waiting.expire(now=5.0, begun_before=5.0)] == ["p0", "p2"]
    waiting._check()
    assert [pod.uid for pod in waiting.expire(now=5.0)] == ["p1", "p3"]
