"""The scores of late plugins, which are asked about single nodes for one pod.

Such a plugin is told of all nodes that are accepted (PreScore), then it scores each of them, and
may make scores of them that are relative to each other (NormalizeScore).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gangsched.core.evaluation.pod_class import Late, PodClass
from gangsched.core.nodes.views import NodeViews
from gangsched.core.records.gang import PodRecord
from gangsched.cycle_state import CycleState
from gangsched.model import NodeName, Pod
from gangsched.outcomes import Skip, Success, Unschedulable
from gangsched.profile import calls

__all__ = ["prepared", "totals"]

_PRE_SCORE: Final = (Success, Skip, Unschedulable)


def prepared(
    late: Iterable[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    slots: Iterable[int],
) -> Unschedulable | None:
    """Tell plugins which nodes are accepted; return why one refuses the pod on all of them."""
    pod, nodes = record.pod, tuple([views.at(slot) for slot in sorted(slots)])
    for each in late:
        if each.prepares:
            args = (cycle, pod, nodes)
            answer = calls.call(each.plugin, "pre_score", pod, _PRE_SCORE, *args, now=views.now)
            if isinstance(answer, Unschedulable):
                return answer
    return None


def totals(
    pod_class: PodClass,
    late: Iterable[Late],
    record: PodRecord,
    cycle: CycleState,
    views: NodeViews,
    slots: list[int],
) -> dict[int, int]:
    """Return the weighted sum of all scores of each node, that of its state included.

    Runtime complexity: O(nodes x plugins).
    """
    table, pod = pod_class.table, record.pod
    sums = {slot: pod_class.memo.score(table.state_of[slot]) for slot in slots}
    for each in late:
        if not each.weight:
            continue
        plugin, score = each.plugin, pod_class.evaluator.score
        raw: dict[NodeName, int] = {
            table.names[slot]: score(plugin, cycle, pod, views.at(slot, shows_pods=each.shows_pods))
            for slot in slots
        }
        if callable(getattr(plugin, "normalize_score", None)):
            raw = _normalized(plugin, cycle, pod, raw)
        for slot in slots:
            sums[slot] += each.weight * raw[table.names[slot]]
    return sums


def _normalized(
    plugin: Any, cycle: CycleState, pod: Pod, raw: dict[NodeName, int]
) -> dict[NodeName, int]:
    """Return the scores from 0 to 100 that a plugin makes of its raw ones."""
    point = "normalize_score"
    answer = calls.call(plugin, point, pod, Mapping, cycle, pod, dict(raw))
    try:
        scores: dict[Any, Any] = dict(answer)
    except Exception as error:
        raise calls.raised(plugin, point, pod, error) from error
    if scores.keys() != raw.keys() or not all(
        type(score) is int and 0 <= score <= 100 for score in scores.values()
    ):
        raise calls.returned(plugin, point, pod, answer)
    return scores
