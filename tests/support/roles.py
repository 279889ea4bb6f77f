"""Gangs of unlike members: a few servers, and workers with other requests."""

from __future__ import annotations

from hypothesis import strategies as st

from support.history_steps import PutPods

__all__ = ["gangs_of_roles"]


@st.composite
def gangs_of_roles(draw: st.DrawFn) -> tuple[PutPods, PutPods]:
    """Return steps that add a gang of two roles, in either order of arrival.

    One role requests CPUs, the other accelerators or a zone. So whichever is placed first may
    take the capacity that the other needs.
    """
    group = draw(st.integers(1, 3))
    servers, workers = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    said = draw(st.sampled_from([servers + workers, servers + workers, workers, 1 + workers]))
    needs_gpu = draw(st.booleans())
    serving = PutPods(group, servers, said, cpu=2, priority=group % 2, role="ps")
    working = PutPods(
        group,
        workers,
        said,
        gpu=int(needs_gpu),
        zone=None if needs_gpu else "a",
        priority=group % 2,
        role="worker",
    )
    return (serving, working) if draw(st.booleans()) else (working, serving)
