"""Ask the plugins at the points that are about a pod or a group: who is asked, what counts.

Plugins run in the order of the profile; ``unreserve`` in the reverse order. What one raises, or
returns against its contract, becomes a ``PluginError`` that names the plugin, the point and the
value.

The steps of ``queue_sort``, ``pre_enqueue``, ``unreserve``, ``post_bind``, ``pod_ended`` and the
rules of groups cannot be undone. There the error is *deferred*: the safe answer counts, and the
call raises the error at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

from attrs import evolve

from gangsched.core.records.current_call import CurrentCall
from gangsched.cycle_state import CycleState
from gangsched.errors import GangschedError, PluginError
from gangsched.events import Bind, VolumeChoice
from gangsched.explain import Diagnosis
from gangsched.model import Pod
from gangsched.outcomes import (
    SKIP,
    EvictGroup,
    HoldGroup,
    Outcome,
    RejectGroup,
    Skip,
    Success,
    Unschedulable,
    Verdict,
    Wait,
)
from gangsched.primitives import quorum
from gangsched.primitives.quorum import MatchPolicy
from gangsched.profile import Profile, calls, sort_keys
from gangsched.profile.calls import name_of
from gangsched.protocols import EntityView, GroupView, QueueSortKey
from gangsched.resources import NOTHING, Resources

if TYPE_CHECKING:
    from gangsched.core.evaluation.pod_class import PodClass
    from gangsched.core.records.gang import PodRecord

__all__ = ["Points", "T", "Waits"]

T = TypeVar("T")

Waits: TypeAlias = tuple[tuple[str, float], ...]
"""The names of the permit plugins that let a pod wait, each with its timeout in seconds."""

_POST_FILTER: Final = (Success, Skip, Unschedulable, RejectGroup, HoldGroup, EvictGroup)
_PERMIT: Final = (Success, Skip, Wait, Unschedulable)
_UNRESERVE: Final = (RejectGroup, EvictGroup, type(None))


@final
class Points:
    """The points of a profile that are about pods and groups.

    Args:
        profile: The plugins.
        call: Gets the errors that are deferred.
    """

    def __init__(self, profile: Profile, call: CurrentCall) -> None:
        self.profile = profile
        readers = profile.having("objects_read")
        judging = (*profile.filter, *profile.score)
        self._ending: Final = profile.having("pod_ended")
        self._requesting: Final = profile.having("group_requests")
        self._event_driven: Final = [p for p in readers if any(p is each for each in judging)]
        self._call = call

    # The queue ----------------------------------------------------------------------------------

    def queue_sort(self, entity: EntityView) -> QueueSortKey:
        """Return the sort key of an entity; the last one if the plugin fails to give one."""
        plugin = self.profile.queue_sort
        try:
            answer = calls.call(plugin, "queue_sort", entity.pod, object, entity)
            key = sort_keys.comparable(answer)
            if key is None:
                raise calls.returned(plugin, "queue_sort", entity.pod, answer)
        except GangschedError as error:
            self._call.errors.append(error)
            return sort_keys.last(entity)
        return key

    @property
    def has_shares(self) -> bool:
        """Whether the order of the queue depends on what accounts use."""
        return callable(getattr(self.profile.queue_sort, "share", None))

    @property
    def has_accounts(self) -> bool:
        """Whether the order of the queue says on which account a pod runs."""
        return callable(getattr(self.profile.queue_sort, "account", None))

    def account(self, pod: Pod) -> str:
        """Return the account on which a pod runs; its namespace if the plugin fails."""
        plugin: Any = self.profile.queue_sort

        def ask() -> str:
            found: str = calls.call(plugin, "account", pod, str, pod)
            return found

        return self._defer(ask, pod.namespace)

    def share(self, account: str, usage: Resources) -> float:
        """Return the share of an account: the smallest goes first; the last if the plugin fails."""
        plugin: Any = self.profile.queue_sort

        def ask() -> float:
            found = calls.call(plugin, "share", account, (int, float), account, usage)
            if isinstance(found, bool) or found != found:
                raise calls.returned(plugin, "share", account, found)
            return float(found)

        return self._defer(ask, math.inf)

    def pre_enqueue(self, pod: Pod, group: GroupView | None, now: float) -> Unschedulable | None:
        """Return why a pod is not admitted to the queue; None if it is."""
        try:
            plugins = self.profile.pre_enqueue
            found = calls.first_refusal(plugins, "pre_enqueue", pod, pod, group, now=now)
            return None if found is None else found[1]
        except GangschedError as error:
            self._call.errors.append(error)
            return Unschedulable(str(error))

    # A cycle ------------------------------------------------------------------------------------

    def pre_filter(
        self, cycle: CycleState, pod: Pod, now: float, asked: Sequence[Any] | None = None
    ) -> Diagnosis | str | None:
        """Return why a pod is refused before any node is looked at; None if it is not.

        It is a diagnosis if only an event can help: the plugin says which objects it reads.

        Args:
            cycle: The cycle of the pod.
            pod: The pod.
            now: The current instant.
            asked: The plugins to ask; None for all that are concerned.
        """
        plugins = asked
        if plugins is None:
            plugins = self.concerned("pre_filter", self.profile.pre_filter, pod, None)
        found = calls.first_refusal(tuple(plugins), "pre_filter", pod, cycle, pod, now=now)
        if found is None:
            return None
        plugin, outcome = found
        if any(plugin is each for each in self._event_driven):
            return Diagnosis(len(cycle.nodes), (), outcome.reason)
        return outcome.reason

    def post_filter(
        self, cycle: CycleState, pod: Pod, reason: str, now: float
    ) -> Outcome | Verdict:
        """Return what follows from a failed attempt: the first ``Success`` or verdict counts."""
        reasons: list[str] = []
        for plugin in self.profile.post_filter:
            found = calls.call(
                plugin, "post_filter", pod, _POST_FILTER, cycle, pod, reason, now=now
            )
            if isinstance(found, Unschedulable):
                reasons += found.reasons
            elif not isinstance(found, Skip):
                verdict: Outcome | Verdict = found
                return verdict
        return Unschedulable(reasons) if reasons else SKIP

    def reserve(
        self, record: PodRecord, now: float, asked: Sequence[Any] | None = None
    ) -> Unschedulable | None:
        """Return why a tentative placement is refused; None if it is not.

        Args:
            record: The pod.
            now: The current instant.
            asked: The plugins to ask; None for all that are concerned.
        """
        pod, plugins = record.pod, asked
        if plugins is None:
            plugins = self.concerned("reserve", self.profile.reserve, pod, record.pod_class)
        return _refusal(plugins, "reserve", pod, record.cycle, pod, record.node, now=now)

    def unreserve(
        self, record: PodRecord, cycle: Any, node: Any, cause: str, now: float
    ) -> RejectGroup | EvictGroup | None:
        """Tell every plugin that a pod has given a node back; return the first verdict."""
        verdict: RejectGroup | EvictGroup | None = None
        args = (cycle, record.pod, node)
        for plugin in reversed(self._to_be_told("reserve", self.profile.reserve, record)):
            try:
                answer = calls.call(
                    plugin, "unreserve", record.pod, _UNRESERVE, *args, cause=cause, now=now
                )
            except GangschedError as error:
                self._call.errors.append(error)
            else:
                verdict = verdict or answer
        return verdict

    def permit(
        self, record: PodRecord, now: float, asked: Sequence[Any] | None = None
    ) -> Waits | Unschedulable:
        """Return the first refusal; otherwise which plugins let the pod wait, and how long."""
        waits: list[tuple[str, float]] = []
        cycle, pod, node = record.cycle, record.pod, record.node
        for plugin in self.profile.permit if asked is None else asked:
            answer = calls.call(plugin, "permit", pod, _PERMIT, cycle, pod, node, now=now)
            if isinstance(answer, Unschedulable):
                return answer
            if isinstance(answer, Wait):
                if not math.isfinite(now + answer.timeout):
                    expected = f"a Wait whose timeout added to now={now!r} is finite"
                    raise calls.returned(plugin, "permit", pod, answer, expected)
                waits.append((name_of(plugin), answer.timeout))
        return tuple(waits)

    def pre_bind(self, record: PodRecord, now: float) -> Unschedulable | None:
        """Return why a pod that may go is not bound; None if it is."""
        args = (record.cycle, record.pod, record.node)
        return _refusal(self.profile.pre_bind, "pre_bind", record.pod, *args, now=now)

    def bind(self, record: PodRecord, now: float) -> Bind:
        """Return the effect that binds a pod: the first answer other than ``Skip``.

        Raises:
            PluginError: A plugin raised, returned anything but the bind of this pod on this node in
                this attempt, or all plugins skipped.
        """
        pod, node, attempt = record.pod, record.node, record.attempt
        for plugin in self.profile.bind:
            answer = calls.call(plugin, "bind", pod, (Bind, Skip), pod, node, attempt, now=now)
            if isinstance(answer, Skip):
                continue
            if (answer.uid, answer.node, answer.attempt) != (pod.uid, node, attempt):
                raise calls.returned(plugin, "bind", pod, answer)
            found: Bind = answer
            return self._with_volumes(found, pod) if pod.volume_claims else found
        names = ", ".join(name_of(plugin) for plugin in self.profile.bind)
        raise PluginError(names, "bind", pod.key, "every plugin skipped the pod")

    def post_bind(self, record: PodRecord, now: float) -> None:
        """Tell every plugin that a pod was bound."""
        for plugin in self._to_be_told("post_bind", self.profile.post_bind, record):
            try:
                args = (record.pod, record.node)
                calls.call(plugin, "post_bind", record.pod, type(None), *args, now=now)
            except GangschedError as error:
                self._call.errors.append(error)

    def pod_ended(self, pod: Pod, now: float) -> bool:
        """Tell every plugin that a bound pod has ended; return whether one may accept more."""
        wakes = False
        for plugin in self._ending:
            try:
                wakes |= calls.call(plugin, "pod_ended", pod, bool, pod, pod.node_name, now=now)
            except GangschedError as error:
                self._call.errors.append(error)
        return wakes

    def concerned(
        self, point: str, plugins: Sequence[Any], pod: Pod, pod_class: PodClass | None
    ) -> Sequence[Any]:
        """Return the plugins without those that say that they have nothing to do with a pod.

        A plugin that signs pods says the same for all of a class, so the class remembers it.

        Args:
            point: Names the plugins: always the same ones.
            plugins: The plugins.
            pod: The pod.
            pod_class: Its class, if it is known.
        """
        known = None if pod_class is None else pod_class.concerned.get(point)
        if known is not None:
            return known
        found: list[Any] = []
        is_signed = True
        for plugin in plugins:
            if callable(getattr(plugin, "skips", None)):
                is_signed = is_signed and pod_class is not None and _signs(plugin)
                if calls.call(plugin, "skips", pod, bool, pod):
                    continue
            found.append(plugin)
        if pod_class is not None and is_signed:
            pod_class.concerned[point] = tuple(found)
        return found

    def each_concerned(
        self, point: str, plugins: Sequence[Any], records: Iterable[PodRecord]
    ) -> list[tuple[PodRecord, Sequence[Any]]]:
        """Return pods, each with the plugins that are ``concerned``; none without one."""
        found: list[tuple[PodRecord, Sequence[Any]]] = []
        for record in records if plugins else ():
            pod_class = record.pod_class
            known = None if pod_class is None else pod_class.concerned.get(point)
            if known is None:  # otherwise a call for each member is spared
                known = tuple(self.concerned(point, plugins, record.pod, pod_class))
            if known:
                found.append((record, known))
        return found

    def _to_be_told(self, point: str, plugins: Sequence[Any], record: PodRecord) -> Sequence[Any]:
        """Return the plugins that are concerned; if one fails to say so, the others are told."""
        pod, pod_class = record.pod, record.pod_class
        known = None if pod_class is None else pod_class.concerned.get(point)
        if known is not None:
            return known
        try:
            return self.concerned(point, plugins, pod, pod_class)
        except GangschedError:
            found: list[Any] = []
        for plugin in plugins:
            try:
                found += self.concerned(point, (plugin,), pod, None)
            except GangschedError as error:
                self._call.errors.append(error)
        return found

    def _with_volumes(self, bind: Bind, pod: Pod) -> Bind:
        found: list[VolumeChoice] = []
        for plugin in self.profile.having("volume_choices"):
            answer = calls.call(plugin, "volume_choices", pod, Iterable, pod, bind.node)
            try:
                choices: tuple[Any, ...] = tuple(answer)
            except Exception as error:
                raise calls.raised(plugin, "volume_choices", pod, error) from error
            if isinstance(answer, str | bytes) or any(type(c) is not VolumeChoice for c in choices):
                raise calls.returned(plugin, "volume_choices", pod, choices)
            found += choices
        return evolve(bind, volumes=tuple(found)) if found else bind

    # Groups -------------------------------------------------------------------------------------

    def members_needed(self, group: GroupView) -> int | None:
        """Return how many more members a group needs; None if its members go one by one."""
        policy, rule = self.profile.match_policy, self.profile.quorum
        if policy is None:
            try:
                answer: int | None = calls.call(
                    rule, "members_needed", group, (int, type(None)), group
                )
                if type(answer) is bool:
                    raise calls.returned(rule, "members_needed", group, answer)
            except GangschedError as error:
                self._call.errors.append(error)
            else:
                return answer
        return quorum.members_needed(group, policy or MatchPolicy.ONCE_SATISFIED)

    def roles_needed(self, group: GroupView) -> Mapping[str, int]:
        """Return how many more members of each sub group a group needs, by its path.

        It is empty if they go one by one. The key ``""`` stands for members of any role. What the
        gang policy says overrides what copies of a role need by themselves.
        """
        policy, rule = self.profile.match_policy, self.profile.quorum
        if policy is not None:
            return quorum.roles_needed(group, policy)
        copies = quorum.copies_needed(group)
        if (group.roles or copies) and callable(getattr(rule, "roles_needed", None)):
            return {**copies, **self._defer(lambda: _roles(rule, group), {})}
        more = self.members_needed(group)
        return copies if more is None else {**copies, "": more}

    def group_requests(self, group: GroupView) -> Resources:
        """Return what a group needs of the cluster in total: the sum over all plugins."""
        wanted = NOTHING
        for plugin in self._requesting:
            try:
                answer: Resources = calls.call(plugin, "group_requests", group, Resources, group)
            except GangschedError as error:
                self._call.errors.append(error)
            else:
                wanted = wanted + answer if wanted else answer
        return wanted

    def _defer(self, ask: Callable[[], T], fallback: T) -> T:
        """Return an answer; if it fails, the fallback, and the error is raised at the end."""
        try:
            return ask()
        except GangschedError as error:
            self._call.errors.append(error)
            return fallback


def _signs(plugin: Any) -> bool:
    """Return whether what a plugin reads of pods is part of their class."""
    judges = any(callable(getattr(plugin, each, None)) for each in ("filter", "score", "pre_score"))
    return judges and callable(getattr(plugin, "pod_signature", None))


def _refusal(
    plugins: Iterable[Any], point: str, pod: Pod, *args: Any, now: float
) -> Unschedulable | None:
    found = calls.first_refusal(tuple(plugins), point, pod, *args, now=now)
    return None if found is None else found[1]


def _roles(rule: Any, group: GroupView) -> Mapping[str, int]:
    answer: Any = calls.call(rule, "roles_needed", group, Mapping, group)
    try:
        roles: dict[Any, Any] = dict(answer)
    except Exception as error:
        raise calls.raised(rule, "roles_needed", group, error) from error
    if not all(isinstance(name, str) and type(more) is int for name, more in roles.items()):
        raise calls.returned(rule, "roles_needed", group, answer)
    return roles
