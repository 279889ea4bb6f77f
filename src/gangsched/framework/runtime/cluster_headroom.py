"""How many pods plugins can accept in the cluster as a whole, wherever these are put.

A plugin that counts pods, such as a quota, may refuse a pod on every node for the same reason. Only
a search over all placements could prove that, and every change would make it necessary again. The
plugin says it itself, see ``gangsched.protocols.ClusterHeadroom``.

Rules:
  R1  a bound is an upper bound: as many pods need not fit;
  R2  without such a plugin nothing is asked, and nothing costs more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gangsched import _plugin_calls as calls
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.settings import Settings
from gangsched.model import Pod
from gangsched.outcomes import Skip, Success, Unschedulable

__all__ = ["UNBOUNDED", "bound", "of_class"]

UNBOUNDED: Final = 1 << 62
"""More pods than there are."""

_DECIDES: Final = (Success, Skip, Unschedulable)


def bound(plugins: Iterable[Any], cycle: CycleState, pod: Pod) -> int:
    """Return how many pods like *pod* some plugins accept at most. O(plugins).

    Raises:
        PluginError: A plugin raised, or returned anything but None or an int >= 0.
    """
    found = UNBOUNDED
    for plugin in plugins:
        answer: Any = calls.call(plugin, "cluster_headroom", pod, (int, type(None)), cycle, pod)
        if answer is None:
            continue
        if type(answer) is not int or answer < 0:
            raise calls.returned(plugin, "cluster_headroom", pod, answer)
        found = min(found, answer)
    return found


def of_class(settings: Settings, nodes: Nodes, pod_class: PodClass, now: float) -> int:
    """Return how many pods of a class plugins accept at most, with the pods on nodes as they are.

    A plugin that raises bounds nothing: the cycle of one of the pods will raise the error.

    Runtime complexity: O(plugins), plus what their ``pre_filter`` costs.
    """
    plugins: tuple[Any, ...] = settings.profile.cluster_headrooms
    if not plugins or not pod_class.reads_pods:
        return UNBOUNDED
    pod, found = pod_class.sample, UNBOUNDED
    for plugin in plugins:
        cycle = CycleState(None, nodes.infos, settings.cluster, nodes.counts)
        try:
            if callable(getattr(plugin, "pre_filter", None)):
                calls.call(plugin, "pre_filter", pod, _DECIDES, cycle, pod, now=now)
            found = min(found, bound((plugin,), cycle, pod))
        except GangschedError:
            continue
    return found
