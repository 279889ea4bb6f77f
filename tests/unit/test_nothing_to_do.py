"""Steps of the framework that have nothing to do leave everything as it is."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import GroupKey, NodeName, Pod, PodUID
from gangsched.cycle_state import CycleState
from gangsched.errors import ProfileError
from gangsched.framework.lifecycle import notices
from gangsched.framework.nodes.node_info import NodeInfo
from gangsched.framework.queueing import bundles, requeue
from gangsched.profile import signing
from support.busy import NOW, busy_scheduler
from support.fingerprint import fingerprint


def test_pods_that_change_requeue_no_entity_where_no_plugin_reads_them() -> None:
    _cluster, scheduler = busy_scheduler()
    before = fingerprint(scheduler)
    requeue.pods_changed(scheduler._state, now=NOW)
    assert fingerprint(scheduler) == before


def test_group_without_pending_members_has_no_member_to_notify() -> None:
    _cluster, scheduler = busy_scheduler()
    state = scheduler._state
    entity = state.pods.entities[GroupKey("default/w")]
    for pod in list(entity.pending):
        entity.discard(pod.uid)
    notices.tell_unadmitted(state.pods, state.call, entity, "why", was_gated=False)
    assert state.call.out == []


def test_group_outside_of_a_bundle_has_no_siblings() -> None:
    _cluster, scheduler = busy_scheduler()
    assert bundles.siblings(scheduler._state.pods, None) == []


def test_state_of_a_cycle_without_nodes_counts_no_pods() -> None:
    state = CycleState(None, {})
    assert state.counts is state.counts
    with pytest.raises(LookupError, match="counts of CycleState"):
        _ = CycleState(None, {NodeName("n"): busy_node()}).counts


def busy_node() -> NodeInfo:
    _cluster, scheduler = busy_scheduler()
    return scheduler._state.nodes.infos[NodeName("n1")]


class Instance:
    """A plugin whose declaration and method are attributes of the object itself."""

    name = "Instance"

    def __init__(self, names: object) -> None:
        self.attributes_signed = names
        self.pod_signature = lambda pod: pod.tolerations


def test_declaration_of_an_object_counts_for_the_method_of_the_object() -> None:
    assert signing._declared(Instance(("tolerations",))) == frozenset({"tolerations"})
    with pytest.raises(ProfileError, match="attributes_signed"):
        signing._declared(Instance(("no such attribute",)))


def test_assumed_pod_that_changes_is_shown_as_it_is_now() -> None:
    _cluster, scheduler = busy_scheduler()
    nodes = scheduler._state.nodes
    uid, (name, before) = next(iter(nodes.assumed.items()))
    for changes in ({"requests": {"cpu": 3}}, {"labels": {"a": "b"}}):
        after: Pod = evolve(nodes.assumed[uid][1], **changes)
        nodes.replace_pod(after)
        assert nodes.assumed[uid] == (name, after)
        assert nodes.infos[name].pods_by_uid[PodUID(uid)] is after
    assert after.requests != before.requests
