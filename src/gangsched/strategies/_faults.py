"""A hypothesis strategy for plans of faults; ``gangsched.strategies`` gives it out.

Rule: what is drawn shrinks to few faults, at early places, that take no time.
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
from gangsched.strategies._given import strategy

__all__ = ["faults"]


def faults(
    *,
    places: st.SearchStrategy[int] | None = None,
    groups: st.SearchStrategy[GroupKey | None] | None = None,
    seconds: st.SearchStrategy[float] | None = None,
    counts: st.SearchStrategy[int] | None = None,
    ahead: st.SearchStrategy[bool] | None = None,
) -> st.SearchStrategy[FaultPlan]:
    """Draw plans of faults.

    Args:
        places: Which bind, member, event and call they strike, from 1.
        groups: Of which group binds and members are counted; None for all.
        seconds: How long what takes time takes, and when a clock jumps.
        counts: How many faults.
        ahead: Whether the cluster state shows what is told late.
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
