"""A whole gang of which ``pre_filter`` refuses a needed member takes no node, whatever it asks."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    HostPort,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    VolumeClaim,
    presets,
)
from gangsched.events import Bind
from support.immediate_host import ImmediateHost

pytestmark = pytest.mark.once("siblings are placed together with the unit group only")


@pytest.mark.parametrize("least", [2, 3])
@pytest.mark.parametrize("more", [{}, {"host_ports": [HostPort(80)]}], ids=["plain", "a port"])
def test_gang_holds_no_node_while_needed_member_lacks_its_claim(
    more: dict[str, Any], least: int
) -> None:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster)
    for n in range(2):
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": 3})))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=least)))
    for n in range(2):
        host.tell(PodAdded(Pod(name=f"g-{n}", pod_group="g", **more)))
    claims = [VolumeClaim("missing")]
    host.tell(PodAdded(Pod(name="g-2", pod_group="g", volume_claims=claims)))
    host.decide()
    bound = [effect for effect in host.effects if isinstance(effect, Bind)]
    if least == 2:
        assert len(bound) == 2
    else:
        assert not bound
        assert all(member.node is None for member in host.scheduler._state.pods.members.values())
        assert 'persistentvolumeclaim "missing" not found' in str(host.scheduler.why("default/g"))
