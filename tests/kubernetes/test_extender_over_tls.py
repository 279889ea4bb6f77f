"""kube-scheduler 1.37 asks the extender over TLS; both sides verify the other one's certificate.

The certificate of the extender is for the name of a Service, and kube-scheduler connects to an
address, as one does that runs on the network of its node and cannot resolve that name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from support.control_plane import ControlPlane
from support.extended import Extended
from support.extender_tls import TlsFiles

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Extended]:
    control_plane.admin.delete("/api/v1/nodes")
    found = Extended(control_plane, namespace, tmp_path, TlsFiles(tmp_path / "tls"))
    try:
        yield found
    finally:
        found.stop()


def test_gang_is_bound_over_tls_and_a_renewed_certificate_is_served_at_once(
    cluster: Extended,
) -> None:
    cluster.start()
    assert cluster.url.startswith("https://127.0.0.1:")
    cluster.add_node("n", cpu="16")
    cluster.add_gang("a", 4)
    cluster.until_bound("a")
    # a bind is counted once it is answered, and the pod has its node before that
    cluster.until(lambda: cluster.requests().get(("bind", 200), 0) >= 4)
    asked = cluster.requests()
    assert asked["bind", 200] == 4
    assert asked["filter", 200] >= 4
    assert {status for _verb, status in asked} == {200}

    assert cluster.tls is not None
    before = cluster.tls.served(cluster.url)
    cluster.tls.renew()
    assert cluster.tls.served(cluster.url) != before
    cluster.add_gang("b", 4)
    cluster.add_pod("solo-0")
    cluster.until_bound()


@pytest.mark.parametrize("wrong", ["caFile", "serverName", "certFile"])
def test_wrong_certificate_or_authority_lets_no_pod_be_bound(cluster: Extended, wrong: str) -> None:
    """Neither a gang nor another pod: the extender is not ``ignorable``."""
    assert cluster.tls is not None
    tls = cluster.tls.of_scheduler()
    says = "certificate"
    match wrong:
        case "caFile":
            other = cluster.tls.folder / "other.crt"
            trustme.CA().cert_pem.write_to_path(other)
            tls["caFile"] = str(other)
        case "serverName":
            tls["serverName"] = "other.gangsched-system.svc"
        case _:
            stranger = trustme.CA().issue_cert("kube-scheduler")
            for name, pem in (
                ("certFile", stranger.cert_chain_pems[0]),
                ("keyFile", stranger.private_key_pem),
            ):
                tls[name] = str(cluster.tls.folder / f"stranger-{name}")
                pem.write_to_path(Path(tls[name]))
            says = "/filter"  # "EOF" or an alert of the server, whichever comes first
    cluster.start_extender()
    cluster.start_scheduler(tls=tls)
    cluster.add_node("n")
    cluster.add_gang("g", 2)
    cluster.add_pod("solo")
    for name in ("solo", "g-0", "g-1"):
        cluster.until_refused(name, says)
    time.sleep(2.0)  # it is tried again, after a backoff of a second
    assert not any(cluster.nodes())
    assert cluster.requests() == {}


def test_plain_http_is_not_answered(cluster: Extended) -> None:
    cluster.start_extender()
    cluster.url = cluster.url.replace("https://", "http://")
    cluster.tls = None
    cluster.start_scheduler()
    cluster.add_node("n")
    cluster.add_pod("solo")
    cluster.until_refused("solo", f'Post "{cluster.url}/filter"')
    assert not any(cluster.nodes())
    assert cluster.requests() == {}
