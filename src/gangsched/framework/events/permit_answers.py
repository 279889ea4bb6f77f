"""Answers that the host gives in the name of a permit plugin: a waiting pod is allowed or rejected.

Rules:
  R1  an answer is about one attempt of the pod: for any other attempt it is late, and changes
      nothing;
  R2  a quorum is counted, never allowed: law 1 does not depend on what a host says.
"""

from __future__ import annotations

from gangsched._plugin_calls import name_of
from gangsched.errors import InvalidValueError
from gangsched.events import PermitAllowed, PermitRejected
from gangsched.framework.events import reconcile_pod
from gangsched.framework.lifecycle import permit_end, permit_recheck
from gangsched.framework.state.scheduler_state import State
from gangsched.profile import Profile

__all__ = ["answered", "check"]


def check(profile: Profile, event: PermitAllowed | PermitRejected) -> None:
    """Require a plugin that may give the answer.

    Raises:
        InvalidValueError: No permit plugin of the profile has the name (``plugin``), or it counts
            the quorum and is said to allow a pod.
    """
    if event.plugin not in profile.permit_names:
        found = ", ".join(map(repr, profile.permit_names)) or "none"
        expected = f"the name of a permit plugin of the profile; these are: {found}"
        raise InvalidValueError("plugin", event.plugin, expected)
    quorum = profile.quorum
    if isinstance(event, PermitAllowed) and quorum is not None and name_of(quorum) == event.plugin:
        expected = "a plugin other than the one that counts the quorum of gangs"
        raise InvalidValueError("plugin", event.plugin, expected)


def answered(state: State, event: PermitAllowed | PermitRejected, *, now: float) -> None:
    """Release the pods that have permit now, or take a rejected pod off its node."""
    reconcile_pod.pod_changed(state, event.uid, now=now)
    member, entry = state.pods.members.get(event.uid), state.pods.waiting.get(event.uid)
    if member is None or entry is None or member.attempt != event.attempt:
        return
    if isinstance(event, PermitRejected):
        reason = f"{event.plugin} rejected it: {event.reason}"
        permit_end.reject(state, [(entry, reason)], now=now)
        return
    for_all = state.settings.profile.group_wide["permit"]
    is_wide = any(name_of(plugin) == event.plugin for plugin in for_all)
    together = permit_recheck.waiting_with(state.pods, member) if is_wide else [member]
    if permit_recheck.allow(state.pods, together, event.plugin):
        permit_end.ask_again(state, member, now=now)
