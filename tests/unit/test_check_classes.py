"""``_check`` of a scheduler sees miscounted classes of pods, labels and requests by default."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangsched import NodeName, PodUID, Resources
from gangsched.errors import InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from support.busy import busy_scheduler


def of_class(state: State) -> tuple[Member, PodClass]:
    """Return a pod that is counted as a reader of labels, and its class."""
    found = next(each for each in state.pods.members.values() if each.is_counted)
    return found, found.pod_class


def uncount_a_reader(state: State) -> str:
    member, _pod_class = of_class(state)
    member.is_counted = False
    return f"{member.pod.uid}: is_counted is False, expected True"


def count_a_running_pod_as_reader(state: State) -> str:
    member = state.pods.members[PodUID("default/bound")]
    assert not member.is_counted
    member.is_counted = True
    return f"{member.pod.uid}: is_counted is True, expected False"


def miscount_the_pending_pods_of_a_class(state: State) -> str:
    _member, pod_class = of_class(state)
    before, pod_class.pending = pod_class.pending, pod_class.pending + 1
    return f"pod class {pod_class.signature}: pending is {before + 1}, expected {before}"


def count_a_reader_of_a_label_that_has_none(state: State) -> str:
    readers = state.pod_classes.labels._readers
    before = {key: count for key, count in readers.items() if count}
    readers["zone"] = 7
    return f"labels are read by {before}, counted as {before | {'zone': 7}}"


def watch_pods_for_a_class_that_does_not(state: State) -> str:
    known = state.pod_classes.watching
    state.pod_classes.watching = known + 1
    return f"{known} pod classes watch pods, counted as {known + 1}"


def share_judgements_without_a_key(state: State) -> str:
    one, other, *_more = state.pod_classes.by_signature.values()
    state.pod_classes.alike.clear()
    one.judgements = other.judgements
    return "classes share judgements that are not known as shared"


def count_other_requests_as_defaulted(state: State) -> str:
    info = state.nodes.infos[NodeName("n1")]
    before = info.defaulted
    info.defaulted = Resources({"cpu": 7})
    return f"n1: {before} is defaulted, not {info.defaulted}"


def show_a_pod_less_than_a_node_has(state: State) -> str:
    info = next(each for each in state.nodes.infos.values() if each.holders)
    held = list(info.holders)
    del info.pods_by_uid[held[-1]]
    return f"{info.node.name} shows {held[:-1]}, not {held}"


@pytest.mark.parametrize(
    "sabotage",
    [
        uncount_a_reader,
        count_a_running_pod_as_reader,
        miscount_the_pending_pods_of_a_class,
        count_a_reader_of_a_label_that_has_none,
        watch_pods_for_a_class_that_does_not,
        share_judgements_without_a_key,
        count_other_requests_as_defaulted,
        show_a_pod_less_than_a_node_has,
    ],
)
def test_check_names_what_is_miscounted(sabotage: Callable[[State], str]) -> None:
    _cluster, scheduler = busy_scheduler()
    scheduler._check()
    expected = sabotage(scheduler._state)
    with pytest.raises(InternalError) as caught:
        scheduler._check()
    assert caught.value.invariant == expected
