"""Strategies for every noun, event and effect, with every field."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    ContainerImage,
    CopyBound,
    Disk,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupKey,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    HostPort,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    PermitAllowed,
    PermitRejected,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodPhase,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    PreferredSchedulingTerm,
    PriorityOverruled,
    Release,
    Resources,
    RestartLimitReached,
    RestartPolicy,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VictimSearchExhausted,
    VolumeClaim,
    WeightedPodAffinityTerm,
)
from gangsched._hypothesis import register_types
from gangsched.model import LabelledRole, LabelSelector
from gangsched.strategies import roles

register_types()

__all__ = ["effects", "events", "nodes", "pod_groups", "pods"]

_strings = st.text(max_size=5)
_texts = st.text(min_size=1, max_size=5)
_spaces = _texts.filter(lambda text: "/" not in text)
_named = st.dictionaries(_strings, _strings, max_size=2)
_amounts = st.dictionaries(_strings, st.integers(0, 2**70), max_size=2).map(Resources.from_milli)
_instants = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)
_seconds = st.floats(0, 1e9)
_endless = _instants | st.just(float("inf"))
_wholes = st.integers(-(2**70), 2**70)
_uids = _texts.map(PodUID)
_names = _texts.map(NodeName)
_keys = st.builds(lambda space, name: GroupKey(f"{space}/{name}"), _spaces, _spaces)
_kinds = st.sampled_from(TaintEffect)


def _few(one: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, max_size=2).map(tuple)


_requirements = st.builds(
    NodeSelectorRequirement,
    _texts,
    st.sampled_from(["In", "NotIn"]),
    st.lists(_strings, min_size=1, max_size=2),
) | st.builds(NodeSelectorRequirement, _texts, st.sampled_from(["Exists", "DoesNotExist"]))
_tolerations = st.builds(Toleration, _texts, _strings, st.booleans(), st.none() | _kinds)

pods = st.builds(
    Pod,
    name=_texts,
    uid=_uids,
    namespace=_spaces,
    priority=_wholes,
    requests=_amounts,
    limits=_amounts,
    labels=_named,
    annotations=_named,
    node_selector=_named,
    affinity=_few(st.builds(NodeSelectorTerm, _few(_requirements))),
    tolerations=_few(_tolerations),
    pod_group=st.none() | _strings,
    scheduling_gates=_few(_strings),
    owners=_few(_strings),
    node_name=st.none() | _names,
    phase=st.sampled_from(PodPhase),
    deleted_at=st.none() | _instants,
    created_at=_instants,
    **{
        name: _few(st.from_type(kind))
        for name, kind in {
            "preferred_node_affinity": PreferredSchedulingTerm,
            "pod_affinity": PodAffinityTerm,
            "preferred_pod_affinity": WeightedPodAffinityTerm,
            "pod_anti_affinity": PodAffinityTerm,
            "preferred_pod_anti_affinity": WeightedPodAffinityTerm,
            "topology_spread_constraints": TopologySpreadConstraint,
            "host_ports": HostPort,
            "volume_claims": VolumeClaim,
            "disks": Disk,
        }.items()
    },
    images=_few(_strings),
    image_volumes=_few(_strings),
    required_features=_few(_strings),
    unmodelled=_few(_strings),
)


_LABELLED = (
    LabelledRole("decode/0/worker", LabelSelector({"part": "worker"})),
    LabelledRole("decode/*/worker", number="replica"),
    LabelledRole(None),
)


@st.composite
def _groups(draw: st.DrawFn) -> PodGroup:
    some = st.dictionaries(_spaces, st.integers(1, 3), max_size=2)
    copies = roles(
        topologies=st.from_type(Topology), restarts=st.builds(RestartPolicy, repair=st.booleans())
    )
    minima = draw(some | copies)
    least = PodGroup(name="g", roles=minima).min_available if minima else 0
    return PodGroup(
        name=draw(_texts),
        namespace=draw(_spaces),
        roles=minima,
        min_available=least + draw(st.integers(1, 3)),
        schedule_timeout=draw(st.none() | _seconds),
        min_resources=draw(_amounts),
        priority=draw(st.none() | _wholes),
        created_at=draw(_instants),
        topology=draw(
            st.none() | st.builds(Topology, _texts, st.booleans()) | st.from_type(Topology)
        ),
        bundle=draw(_few(_keys)),
        restart=draw(st.none() | st.builds(RestartPolicy, max_restarts=st.integers(1, 9))),
        restarts=draw(st.integers(0, 9)),
        restarting_until=draw(st.none() | _instants),
        copy_restarts=draw(
            st.dictionaries(_texts, st.tuples(st.integers(1, 9), st.none() | _instants), max_size=2)
        ),
        labelled_roles=draw(_few(st.sampled_from(_LABELLED))),
    )


pod_groups = _groups()
nodes = st.builds(
    Node,
    name=_names,
    allocatable=_amounts,
    labels=_named,
    taints=_few(st.builds(Taint, _texts, _strings, _kinds)),
    unschedulable=st.booleans(),
    images=_few(st.builds(ContainerImage, _few(_strings), st.integers(0, 2**40))),
    declared_features=_few(_strings),
)
events = st.one_of(
    st.builds(PodAdded, pods),
    st.builds(PodUpdated, pods),
    st.builds(PodDeleted, _uids),
    st.builds(NodeAdded, nodes),
    st.builds(NodeUpdated, nodes),
    st.builds(NodeDeleted, _names),
    st.builds(PodGroupAdded, pod_groups),
    st.builds(PodGroupUpdated, pod_groups),
    st.builds(PodGroupDeleted, _keys),
    st.builds(Bound, _uids, _names, _wholes),
    st.builds(BindFailed, _uids, _wholes, _strings),
    st.builds(PermitAllowed, _uids, _strings, _wholes),
    st.builds(PermitRejected, _uids, _strings, _wholes, _strings),
)
_roles = _few(st.tuples(_strings, _wholes, _wholes))
effects = st.one_of(
    st.builds(Release, _keys, _few(_uids)),
    st.builds(Bind, _uids, _names, _wholes),
    st.builds(Evict, _uids, _names, _strings),
    st.builds(PodRefused, _uids, _strings),
    st.builds(PodNotAdmitted, _uids, _strings),
    st.builds(GroupIncomplete, _keys, _wholes, st.none() | _wholes, _roles),
    st.builds(PodUnschedulable, _uids, _strings),
    st.builds(PodWaiting, _uids, _names, _endless, _wholes, _wholes, _few(_strings)),
    st.builds(PodRejected, _uids, _names, _strings),
    st.builds(GroupRejected, _keys, _wholes, _strings, _endless),
    st.builds(GroupScheduled, _keys, _wholes, _wholes, _endless),
    st.builds(GroupBound, _keys, _wholes, _wholes),
    st.builds(CopyBound, _keys, _texts, _wholes),
    st.builds(GroupPartlyBound, _keys, _wholes, _wholes, _uids, _strings),
    st.builds(GroupBelowMinimum, _keys, _wholes, _wholes, _strings),
    st.builds(GroupRestarted, _keys, _wholes, _wholes, _endless, _strings),
    st.builds(RestartLimitReached, _keys, _wholes, _strings),
    st.builds(GroupRemoved, _keys),
    st.builds(PodScheduled, _uids, _names),
    st.builds(
        Nominated,
        st.none() | _keys,
        _wholes,
        _few(st.tuples(_uids, _names)),
        _few(_uids),
        _endless,
    ),
    st.builds(PriorityOverruled, _uids, _keys, _wholes, _wholes),
    st.builds(NominationLapsed, st.none() | _keys, _few(_uids), _strings),
    st.builds(VictimSearchExhausted, st.none() | _keys, _uids, _wholes, st.booleans()),
)
