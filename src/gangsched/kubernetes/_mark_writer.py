"""What is written of gangs that are whole: annotations of pods, or the condition of the group.

``Effects`` writes the condition of a gang that this process has started. A leader that is killed
right after the last bind has not written it, and a group may come later than its pods. So the
groups of which something has changed are looked at here.

Rules:
  R1  they are written if no object of the group keeps a phase or a condition, see ``_start_marks``.
      A group of one member has none: it is whole with its first bind. Groups below one root have
      them too: that a root has no condition says nothing, since kube-scheduler writes none;
  R2  two members of a whole gang say so, on two nodes if there are two. If one of them leaves,
      another member says it instead;
  R3  a gang of which no member was bound with an annotation has none: nothing would be known of it
      all the same;
  R4  the condition of a native group follows what runs: it is written once the group is whole, and
      that of a composite pod group once as many of its children are, whoever has started them;
  R5  a patch goes to the status of the pod, on which the scheduler has rights. It names the UID,
      and gives way to binds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, final

from gangsched.errors import GangschedError
from gangsched.kubernetes._api import STRATEGIC_MERGE_PATCH
from gangsched.kubernetes._bind import pod_path
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._conditions import StatusWriter, is_scheduled
from gangsched.kubernetes._group_status import keeps_record
from gangsched.kubernetes._placed import children_of, groups_below, is_whole, parents_of
from gangsched.kubernetes._requests import Requests, is_gone, said, to_json
from gangsched.kubernetes._start_marks import BOUND_IN_START, WAS_WHOLE, holds_node
from gangsched.model import GroupKey, Pod
from gangsched.primitives.group_info import PodGroupInfo
from gangsched.scheduler import Scheduler

__all__ = ["StartMarks"]

_LANE: Final = "status"
_PAUSE: Final = 0.25
"""Seconds between two looks."""
_SAYING: Final = 2
"""How many members of a whole gang say that it is."""
_PATIENCE: Final = 60.0

_log = logging.getLogger("gangsched.kubernetes.status")


@final
class StartMarks:
    """Writes on members of whole gangs that their gang was whole.

    Args:
        requests: Sends requests.
        cache: The cluster state; it says which groups have changed.
        scheduler: Knows the members of each group.
        was_whole: Returns whether a gang is whole or was whole; None if that is not known.
        status: Writes the conditions of groups.
        give_way: Waits while binds have to go first; called with the instant of queueing.
        workers: How many patches are under way at most.
    """

    def __init__(
        self,
        requests: Requests,
        cache: Cache,
        scheduler: Scheduler,
        was_whole: Callable[[GroupKey], bool | None],
        status: StatusWriter,
        give_way: Callable[[float], Awaitable[object]],
        *,
        workers: int = 4,
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._scheduler = scheduler
        self._was_whole = was_whole
        self._status = status
        self._give_way = give_way
        self._workers = workers

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            await self.look()

    async def look(self) -> None:
        """Look at every gang of which a member has changed since the last look."""
        if not len(self._scheduler.registry):
            return  # it has not listed the cluster yet
        registry, keys = self._scheduler.registry, sorted(self._cache.moved)
        self._cache.moved.clear()
        parents = parents_of(registry, keys)
        for parent in parents:
            self._write_of_children(parent)
        pods = [(key, pod) for key in sorted({*keys, *parents}) for pod in self._to_mark(key)]
        for n in range(0, len(pods), self._workers):
            await self._give_way(time.monotonic())
            await asyncio.gather(*(self._mark(*each) for each in pods[n : n + self._workers]))

    def _to_mark(self, key: GroupKey) -> list[Pod]:
        registry = self._scheduler.registry
        info: PodGroupInfo | None = registry.get(key)
        if info is None:
            return []
        infos = [info]
        if info.spec is not None and info.spec.min_groups is not None:
            if info.spec.parent is not None:
                return []
            infos = groups_below(registry, key)
        elif keeps_record(self._cache.group_facts(key)):
            self._write_condition(info)
            return []
        members = [self._cache.cluster.pod(uid) for each in infos for uid in each.members]
        placed = [pod for pod in members if pod is not None and holds_node(pod)]
        saying = [pod for pod in placed if WAS_WHOLE in pod.annotations]
        lacking = _SAYING - len(saying)
        is_ours = saying or any(BOUND_IN_START in pod.annotations for pod in placed)
        if lacking <= 0 or not is_ours or not self._was_whole(key):
            return []
        others = [pod for pod in placed if WAS_WHOLE not in pod.annotations]
        return _on_several_nodes(others, {pod.node_name for pod in saying})[:lacking]

    def _write_condition(self, info: PodGroupInfo) -> None:
        # its object may have been made again with a larger minimum while it ran
        if not info.assumed and info.assigned and (is_whole(info) or self._was_whole(info.key)):
            message = f"{info.assigned} members are assigned to nodes"
            self._status.group(info.key, scheduled=True, message=message)

    def _write_of_children(self, parent: GroupKey) -> None:
        facts = self._cache.group_facts(parent)
        if facts is None or is_scheduled(facts):
            return
        of = children_of(self._scheduler.registry, parent)
        if of.placed and of.is_met:
            bound = sum(info.assigned for info in groups_below(self._scheduler.registry, parent))
            message = f"{bound} members are assigned to nodes"
            self._status.group(parent, scheduled=True, message=message)

    async def _mark(self, key: GroupKey, pod: Pod) -> None:
        path = pod_path(pod, "status")
        try:
            response = await self._requests.patch(
                path,
                body=to_json({"metadata": {"uid": pod.uid, "annotations": {WAS_WHOLE: "true"}}}),
                content_type=STRATEGIC_MERGE_PATCH,
                lane=_LANE,
                patience=_PATIENCE,
            )
        except GangschedError as error:
            _log.warning("not written that %s was whole: %s", key, error)
            self._cache.moved.add(key)
            return
        if response.status >= 300 and not is_gone(response):
            _log.warning("not written that %s was whole: PATCH %s: %s", key, path, said(response))


def _on_several_nodes(pods: Iterable[Pod], nodes: set[str | None]) -> list[Pod]:
    """Return *pods*, those first that are on other nodes than *nodes* and those before them."""
    seen = {*nodes}
    first: list[Pod] = []
    rest: list[Pod] = []
    for pod in pods:
        (rest if pod.node_name in seen else first).append(pod)
        seen.add(pod.node_name)
    return first + rest
