"""Ask the permit plugins for the rules of a group: its quorum, its roles, its total request.

None of these functions raises: they run in the middle of events. The error of a plugin is deferred
to the end of the call, and the rule ``once_satisfied`` answers in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gangsched import _plugin_calls as calls
from gangsched._core import _quorum
from gangsched.errors import GangschedError
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.settings import Settings
from gangsched.protocols import GroupView
from gangsched.resources import NOTHING, Resources

__all__ = ["group_requests", "members_needed", "roles_needed"]


def members_needed(settings: Settings, call: CurrentCall, group: GroupView) -> int | None:
    """Return how many more members a group needs; None if its members are released singly."""
    rule = settings.profile.quorum
    if rule is not None:
        try:
            answer = calls.call(rule, "members_needed", group, (int, type(None)), group)
            if answer is True or answer is False:
                raise calls.returned(rule, "members_needed", group, answer)
        except GangschedError as error:
            call.deferred.append(error)
        else:
            return cast("int | None", answer)
    return _quorum.members_needed(group, _quorum.MatchPolicy.ONCE_SATISFIED)


def roles_needed(settings: Settings, call: CurrentCall, group: GroupView) -> Mapping[str, int]:
    """Return how many more members of each role a group needs; see ``RoleRule``. O(roles)."""
    rule = settings.profile.roles
    if group.roles and rule is not None:
        try:
            return _roles(rule, group)
        except GangschedError as error:
            call.deferred.append(error)
    if settings.profile.quorum is None:
        return _quorum.roles_needed(group, _quorum.MatchPolicy.ONCE_SATISFIED)
    more = members_needed(settings, call, group)
    return {} if more is None else {"": more}


def _roles(rule: Any, group: GroupView) -> Mapping[str, int]:
    answer: Any = calls.call(rule, "roles_needed", group, Mapping, group)
    try:
        roles: dict[Any, Any] = dict(answer)
    except Exception as error:
        raise calls.raised(rule, "roles_needed", group, error) from error
    if not all(isinstance(name, str) and type(more) is int for name, more in roles.items()):
        raise calls.returned(rule, "roles_needed", group, answer)
    return roles


def group_requests(settings: Settings, call: CurrentCall, group: GroupView) -> Resources:
    """Return what a group needs of the cluster in total: the sum over all plugins."""
    wanted = NOTHING
    for plugin in settings.profile.requests:
        try:
            answer: Resources = calls.call(plugin, "group_requests", group, Resources, group)
        except GangschedError as error:
            call.deferred.append(error)
        else:
            wanted = answer if wanted is NOTHING else wanted + answer
    return wanted
