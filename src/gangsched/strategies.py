"""Hypothesis strategies for the nouns.

Rules:
  R1  every argument is a strategy, and keyword-only;
  R2  what is drawn is valid, and shrinks to the plainest there is: few, small, alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from gangsched.model import (
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodUID,
    Resources,
)

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:  # said in our words, for who installs by error message
    raise ModuleNotFoundError(
        "gangsched.strategies needs: pip install 'gangsched[testing]'", name="hypothesis"
    ) from error

__all__ = ["nodes", "pod_groups", "pods", "resources"]

_NAMES = st.integers(0, 9).map(lambda n: f"x-{n}")
_AMOUNTS = st.integers(0, 8)


def resources(
    *,
    cpu: st.SearchStrategy[int] = _AMOUNTS,
    gpu: st.SearchStrategy[int] = _AMOUNTS,
) -> st.SearchStrategy[Resources]:
    """Draw amounts of cpu and ``nvidia.com/gpu``, in whole units."""

    def make(cpus: int, gpus: int) -> Resources:
        return Resources({"cpu": cpus, "nvidia.com/gpu": gpus})

    return st.builds(make, cpu, gpu)


def nodes(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    allocatable: st.SearchStrategy[Resources] | None = None,
) -> st.SearchStrategy[Node]:
    """Draw nodes."""

    def make(name: str, offered: Resources) -> Node:
        return Node(name=NodeName(name), allocatable=offered)

    return st.builds(make, names, resources() if allocatable is None else allocatable)


def pods(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    groups: st.SearchStrategy[str | None] | None = None,
    requests: st.SearchStrategy[Resources] | None = None,
    priorities: st.SearchStrategy[int] | None = None,
) -> st.SearchStrategy[Pod]:
    """Draw pods that are pending; of a group where *groups* gives a name."""

    def make(name: str, group: str | None, asked: Resources, priority: int, uid: int) -> Pod:
        return Pod(
            name=name,
            uid=PodUID(f"{name}-{uid}"),
            pod_group=group,
            requests=asked,
            priority=priority,
        )

    return st.builds(
        make,
        names,
        st.none() if groups is None else groups,
        resources() if requests is None else requests,
        st.just(0) if priorities is None else priorities,
        st.integers(0, 2**32),
    )


def pod_groups(
    *,
    names: st.SearchStrategy[str] = _NAMES,
    min_available: st.SearchStrategy[int] | None = None,
    schedule_timeout: st.SearchStrategy[float | None] | None = None,
    roles: st.SearchStrategy[Mapping[str, int]] | None = None,
) -> st.SearchStrategy[PodGroup]:
    """Draw specifications of groups; the minimum is at least what their roles add up to."""

    def make(name: str, minimum: int, timeout: float | None, minima: Mapping[str, int]) -> PodGroup:
        least = max(minimum, sum(minima.values()))
        return PodGroup(name=name, roles=minima, min_available=least, schedule_timeout=timeout)

    return st.builds(
        make,
        names,
        st.integers(1, 5) if min_available is None else min_available,
        st.none() if schedule_timeout is None else schedule_timeout,
        st.just({}) if roles is None else roles,
    )
