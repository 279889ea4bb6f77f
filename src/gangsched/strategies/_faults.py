"""A Hypothesis strategy for fault plans.

Rule: plans shrink to few faults, at early positions, without delays.
"""

from __future__ import annotations

from hypothesis import strategies as st

from gangsched.model import GroupKey
from gangsched.simulation.faults import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    ClockJumps,
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
    FaultPlan,
    NodeVanishes,
    SchedulerRestarts,
)
from gangsched.strategies._arguments import strategy

__all__ = ["faults"]


def faults(
    *,
    places: st.SearchStrategy[int] | None = None,
    groups: st.SearchStrategy[GroupKey | None] | None = None,
    seconds: st.SearchStrategy[float] | None = None,
    counts: st.SearchStrategy[int] | None = None,
    ahead: st.SearchStrategy[bool] | None = None,
) -> st.SearchStrategy[FaultPlan]:
    """Draw fault plans.

    Args:
        places: The number of the bind, member, event or call that a fault strikes, from 1.
        groups: The group whose binds and members are counted; None for all.
        seconds: The delays, and the instants at which the clock jumps.
        counts: The number of faults.
        ahead: Whether the cluster state shows events before they are delivered.
    """
    n = strategy("places", places, st.integers(1, 12))
    group: st.SearchStrategy[GroupKey | None] = strategy("groups", groups, st.none())
    s = strategy("seconds", seconds, st.sampled_from([0.0, 0.5, 3.0, 11.0, 30.0]))
    one = st.one_of(
        st.builds(BindFails, n, group),
        st.builds(BindAnswerLost, n, group, s),
        st.builds(BindSlow, n, group, s),
        st.builds(NodeVanishes, n, group, st.none() | s),
        st.builds(EventDuplicated, n, s),
        st.builds(EventDelayed, n, s),
        st.builds(EventReordered, n, st.integers(1, 4)),
        st.builds(EventDropped, n, s),
        st.builds(SchedulerRestarts, n.map(lambda place: 2 * place)),
        st.builds(ClockJumps, s, s),
    )
    count = strategy("counts", counts, st.integers(0, 6))
    several = count.flatmap(lambda size: st.lists(one, min_size=size, max_size=size))
    return st.builds(FaultPlan, several, strategy("ahead", ahead, st.booleans()))


# Here and not in the entry point, because that must not load the simulator.
st.register_type_strategy(FaultPlan, faults())
