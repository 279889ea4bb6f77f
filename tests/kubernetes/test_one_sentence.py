"""Why a gang waits is said alike wherever it is looked for, on a real API server.

The places are the condition and the event of each pending member, those of the group, ``kubectl
gang``, the log, and the label of the metric. ``kubectl gang`` may say more beside it: the instant
of the attempt, and which pod did not fit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, frozen

from support.cluster_objects import group_json, node_json, pod_json
from support.control_plane import Account, ControlPlane, Process, Rule
from support.control_plane.fixtures import need_control_plane
from support.control_plane.processes import free_ports
from support.patience import saw, until
from support.scraping import fetch
from support.spelled_gangs import serve_groups

pytestmark = pytest.mark.once("the scheduler is a process with a configuration of its own")

NAMESPACE: Final = "sentences"
WITH_QUOTA: Final = "with-quota"
KEP_2: Final = "pod-group.scheduling.sigs.k8s.io"
SIZE: Final = 2
CLAIM: Final = {"resourceClaims": [{"name": "x", "resourceClaimName": "c"}]}
GATE: Final = {"schedulingGates": [{"name": "example.com/queue"}]}
KOORDINATOR_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
OTHER_API: Final = "scheduling.x-k8s.io"
Object = dict[str, Any]


@frozen
class Cause:
    """What keeps a gang of two pods waiting.

    Attributes:
        sentence: What is said, with ``{name}`` for the name of the gang.
        state: The label of the metric.
        group: What its native PodGroup says more; None for no PodGroup.
        plugins: The specification of its PodGroup of scheduling.x-k8s.io; None for no such.
        last: What its last pod says more.
        pods: What each pod says more.
        minimum: How many members start together; None if nothing says so.
        field: Whether the pods name the group by the field; otherwise by labels.
        bundle: The groups with which it starts, as the annotation of its PodGroup says.
    """

    sentence: str
    state: str
    group: Object | None = None
    plugins: Object | None = None
    last: Object | None = None
    pods: Object | None = None
    minimum: int | None = SIZE
    field: bool = True
    bundle: str = ""


_HELD: Final = "its pods are held: not modelled: spec.resourceClaims"
_UNKNOWN: Final = "waiting for pod group sentences/{name}: its minimum is unknown; "
_GATED: Final = "1 of 2 members is gated: example.com/queue"
_INCOMPLETE: Final = "waiting for 1 more member: 2 of 3 exist"
_QUOTA: Final = (
    "exceeded quota team: requested cpu=10, used cpu=0, limited cpu=9;"
    " it is more than the whole quota"
)
_UNREADABLE: Final = "its PodGroup cannot be read: spec.minMember: expected an int >= 1, got 'two'"
_FULL: Final = "at most 1 of 2 members fit: cpu is short"
_BUNDLE: Final = "waiting for pod group sentences/other of its bundle: it does not exist"
_LARGE: Final = {"cpu": 4}
_WANT_QUOTA: Final = {"cpu": 5}

CAUSES: Final = {
    "held": Cause(_HELD, "gated", {}, last=CLAIM),
    "held-labels": Cause(_HELD, "gated", last=CLAIM, field=False),
    "missing": Cause(
        _UNKNOWN + "there is no PodGroup {name} of scheduling.k8s.io", "incomplete", minimum=None
    ),
    "missing-labels": Cause(
        f"{_UNKNOWN}its pods have no label {KEP_2}/min-available,"
        " and there is no PodGroup {name}",
        "incomplete",
        minimum=None,
        field=False,
    ),
    "unreadable": Cause(_UNREADABLE, "incomplete", plugins={"minMember": "two"}, field=False),
    "gated": Cause(_GATED, "gated", {}, last=GATE),
    "gated-labels": Cause(_GATED, "gated", last=GATE, field=False),
    "incomplete": Cause(_INCOMPLETE, "incomplete", {}, minimum=3),
    "incomplete-labels": Cause(_INCOMPLETE, "incomplete", minimum=3, field=False),
    "bundle": Cause(_BUNDLE, "incomplete", {}, bundle='["sentences/bundle", "sentences/other"]'),
    "quota": Cause(_QUOTA, "over_quota", {}, pods=_WANT_QUOTA),
    "quota-labels": Cause(_QUOTA, "over_quota", pods=_WANT_QUOTA, field=False),
    "full": Cause(_FULL, "pending", {}, pods=_LARGE),
    "full-labels": Cause(_FULL, "pending", pods=_LARGE, field=False),
}


def space(name: str) -> str:
    """Return the namespace of a gang."""
    return WITH_QUOTA if name.startswith("quota") else NAMESPACE


@define
class Running:
    """A scheduler that runs, and the gangs of its namespace."""

    plane: ControlPlane
    log: Path
    port: int
    kubeconfig: Path

    def pods(self, name: str) -> list[Object]:
        path = f"/api/v1/namespaces/{space(name)}/pods"
        pods = self.plane.admin.items(path)
        return [pod for pod in pods if pod["metadata"]["name"].rpartition("-")[0] == name]

    def notes(self, name: str, kind: str) -> set[str]:
        events = self.plane.admin.items("/apis/events.k8s.io/v1/events")
        return {
            each["note"]
            for each in events
            if (each["regarding"]["kind"], each["regarding"]["name"]) == (kind, name)
        }

    def of_pod(self, gang: str, name: str) -> set[str]:
        return _messages(self.plane.admin.get(f"/api/v1/namespaces/{space(gang)}/pods/{name}"))

    def of_group(self, name: str) -> set[str]:
        path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{space(name)}/podgroups/{name}"
        return _messages(self.plane.admin.get(path))

    def gang(self, name: str, verb: str) -> str:
        code = "import sys; from gangsched.cli._kubectl import main; sys.exit(main())"
        told = subprocess.run(
            [
                *(sys.executable, "-c", code, verb, name, "-n", space(name), "-o", "json"),
                *("--scheduler-url", f"http://127.0.0.1:{self.port}"),
                *("--kubeconfig", str(self.kubeconfig)),
            ],
            capture_output=True,
            check=False,
        )
        saw(f"code {told.returncode}: {told.stderr.decode()}")
        if told.returncode:
            return ""  # a busy scheduler gives no answer in time
        (item,) = json.loads(told.stdout)["items"]
        reason: str = item["reason"]
        return reason

    def logged(self, name: str) -> set[str]:
        whole, _, _half = self.log.read_text().rpartition("\n")
        lines = [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]
        return {
            line["reason"]
            for line in lines
            if line.get("group") == f"{space(name)}/{name}" and "reason" in line
        }

    def states(self) -> Counter[str]:
        text = fetch(self.port, "/metrics")  # empty before the scheduler listens
        lines = re.findall(r'^gangsched_groups\{.*state="(\w+)".*\} (\S+)$', text, re.MULTILINE)
        return Counter({state: int(float(count)) for state, count in lines})


def _messages(found: Object) -> set[str]:
    conditions = found.get("status", {}).get("conditions", [])
    return {each["message"] for each in conditions if each["status"] == "False"}


def _create(plane: ControlPlane, name: str, cause: Cause) -> None:
    at = space(name)
    if cause.group is not None:
        body = group_json(name, cause.minimum or SIZE, namespace=at, **cause.group)
        if cause.bundle:
            body["metadata"]["annotations"] = {KOORDINATOR_GROUPS: cause.bundle}
        plane.admin.create(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{at}/podgroups", body)
    labels: dict[str, str] = {}
    if cause.plugins is not None:
        version = f"{OTHER_API}/v1alpha1"
        other = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}}
        path = f"/apis/{version}/namespaces/{at}/podgroups"
        plane.admin.create(path, {**other, "spec": cause.plugins})
        labels = {f"{OTHER_API}/pod-group": name}
    elif not cause.field:
        minimum = {} if cause.minimum is None else {f"{KEP_2}/min-available": str(cause.minimum)}
        labels = {f"{KEP_2}/name": name, **minimum}
    for number in range(SIZE):
        more = {**(cause.pods or {}), **((cause.last or {}) if number == SIZE - 1 else {})}
        group = name if cause.field else None
        pod = pod_json(f"{name}-{number}", group=group, namespace=at, gpu=0, **more)
        pod["metadata"]["labels"] = labels
        del pod["status"]
        plane.admin.create(f"/api/v1/namespaces/{at}/pods", pod)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    need_control_plane()
    folder = tmp_path_factory.mktemp("sentences")
    with ControlPlane(folder) as plane:
        serve_groups(plane.admin)
        for at in (NAMESPACE, WITH_QUOTA):
            plane.admin.create("/api/v1/namespaces", {"metadata": {"name": at}})
        plane.admin.create("/api/v1/nodes", node_json("n", cpu=7))
        for name, cause in CAUSES.items():
            _create(plane, name, cause)
        token = Account.create(plane.admin, "sentences", [Rule(["*"], ["*"], "*")]).token
        configuration = folder / "configuration.json"
        quota = {"name": "team", "namespaces": [WITH_QUOTA], "hard": {"cpu": 9}}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": "gangsched"}],
            "quotas": [quota],
        }
        configuration.write_text(json.dumps(document), encoding="utf-8")
        (port,) = free_ports(1)
        log = folder / "scheduler.log"
        kubeconfig = plane.kubeconfig("sentences", token)
        command = ["-m", "gangsched", "run", f"--kubeconfig={kubeconfig}"]
        command += [f"--config={configuration}", f"--serve=127.0.0.1:{port}"]
        process = Process(Path(sys.executable), [*command, "--log-json", "-v", "2"], log)
        try:
            yield Running(plane, log, port, kubeconfig)
        finally:
            process.stop()


def _is_said(found: Callable[[], set[str]], expected: set[str]) -> None:
    until(lambda: found() == expected, found)


def _surely(found: Callable[[], set[str]], sentence: str) -> None:
    until(lambda: sentence in found(), found)


def _is_answered(ask: Callable[[], str], sentence: str) -> None:
    until(lambda: sentence in ask(), ask)


@pytest.mark.parametrize("name", CAUSES)
def test_sentence_about_a_gang_is_the_same_in_every_place(running: Running, name: str) -> None:
    cause = CAUSES[name]
    sentence = cause.sentence.format(name=name)
    _surely(lambda: running.logged(name), sentence)
    for pod in running.pods(name):
        member: str = pod["metadata"]["name"]
        _is_said(partial(running.of_pod, name, member), {sentence})
        _surely(partial(running.notes, member, "Pod"), sentence)
    if cause.plugins is not None:
        _surely(lambda: running.notes(name, "PodGroup"), sentence)
    if cause.group is not None:
        _is_said(lambda: running.of_group(name), {sentence})
        _surely(lambda: running.notes(name, "PodGroup"), sentence)
    for verb in ("get", "why"):
        _is_answered(partial(running.gang, name, verb), sentence)


def test_label_of_the_metric_is_that_of_the_cause(running: Running) -> None:
    expected = Counter(cause.state for cause in CAUSES.values())
    until(lambda: +running.states() == expected, running.states)
