"""``gangsched run`` and ``gangsched extender``: options, and what they say about bad input."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path

import pytest
import trustme

from gangsched.kubernetes import Serving, Settings
from gangsched.kubernetes._logs import JsonFormatter, TextFormatter
from gangsched.kubernetes.extender import Holding
from support.documents import printed_by, refuses

pytest.importorskip("kubernetes_asyncio")
TLS = "--serve-cert and --serve-key: expected both of them, or neither"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --config /absent", "/absent: No such file or directory"),
        *(
            (f"run --serve {address}", f"--serve: expected HOST:PORT, got '{address}'")
            for address in ("10259", "host:", "host:x", "host:70000")
        ),
        ("extender --port 70000", "--port: expected 0 to 65535, got 70000"),
        ("extender --serve nowhere", "--serve: expected HOST:PORT, got 'nowhere'"),
        ("extender --hold-timeout 0", "--hold-timeout: expected more than 0 s"),
        ("extender --label-pod x", "--label-pod: expected NAMESPACE/NAME, got 'x'"),
        ("extender --tls-cert c", "--tls-cert and --tls-key: expected both of them, or neither"),
        ("extender --serve-cert c", TLS),
        ("extender --serve-cert no --serve-key no", "--serve-cert, --serve-key: tls must"),
        (
            "extender --insecure-serve --serve-cert c --serve-key k",
            "--insecure-serve: expected without --serve-cert",
        ),
        ("extender --health nowhere", "--health: expected HOST:PORT, got 'nowhere'"),
        ("extender --client-ca c", "--client-ca: expected with --tls-cert and --tls-key only"),
        ("extender --tls-cert no --tls-key no", "tls must be a certificate and its key: "),
        ("extender --bind-address 10.0.0.1", "'10.0.0.1'"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(line: str, said: str) -> None:
    assert said in refuses(*line.split())


def test_health_is_served_beside_metrics_only() -> None:
    said = refuses("extender", "--health", ":1", "--serve", "")
    assert "--health: expected with --serve only" in said


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "api:6443"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file: name a kubeconfig with --kubeconfig or $KUBECONFIG\n"),
        (
            KUBECONFIG,
            "clusters[].cluster.server: expected the URL of a server, got 'api:6443'\n",
        ),
    ],
)
def test_kubeconfig_that_names_no_server_is_named_once(
    text: str | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    found = refuses("run", "--kubeconfig", str(file), "--serve", "")
    assert found.count(str(file)) == 1
    assert found.endswith(said)


def test_address_that_is_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refuses("extender", "--bind-address", "127.0.0.1", "--port", port)
    assert said.startswith("gangsched: extender: ")
    assert "address already in use" in said


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("gangsched.x", logging.WARNING, "f", 1, message, (), None)


def test_log_line_is_json_or_text_without_control_characters() -> None:
    entry = json.loads(JsonFormatter().format(record("a\nb")))
    assert (entry["level"], entry["logger"], entry["msg"]) == ("warning", "gangsched.x", "a\nb")
    line = TextFormatter().format(record("a\x1b[2J\nb"))
    assert "\n" not in line
    assert line.endswith(r"warning gangsched.x: a\x1b[2J\nb")


# What the extender runs with --------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    found: dict[str, object] = {}

    async def note(settings: Settings, **named: object) -> None:
        found.update(named, names=settings.profile.scheduler_names)

    monkeypatch.setattr("gangsched.kubernetes.extender._run.run_extender", note)
    return found


def test_options_reach_the_extender(started: dict[str, object]) -> None:
    printed_by(
        *("extender", "--bind-address", "127.0.0.1", "--port", "7", "--serve", ""),
        *("--scheduler-name", "a", "--scheduler-name", "b", "--hold-timeout", "1m"),
        *("--label-pod", "ns/pod"),
    )
    expected = {
        "names": ("a", "b"),
        "listen": ("127.0.0.1", 7),
        "serve": None,
        "context": None,
        "holding": Holding(timeout=60.0),
        "pod": "ns/pod",
    }
    assert {name: started[name] for name in expected} == expected


def test_scheduler_name_is_that_of_the_configuration_by_default(
    started: dict[str, object], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{schedulerName: ours}]\n", encoding="utf-8")
    printed_by("extender", "--config", str(config))
    assert started["names"] == ("ours",)
    assert started["listen"] == ("127.0.0.1", 8888)
    assert started["serve"] == Serving("0.0.0.0", 8889)


def test_certificate_turns_https_on(started: dict[str, object], tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    printed_by("extender", f"--tls-cert={tmp_path / 'crt'}", f"--tls-key={tmp_path / 'key'}")
    assert started["context"] is not None
    assert started["listen"] == ("0.0.0.0", 8888)


@pytest.mark.parametrize("address", ["10.0.0.1", None])
def test_verbs_are_served_to_others_in_plain_http_only_if_that_is_said(
    started: dict[str, object], address: str | None
) -> None:
    where = [] if address is None else ["--bind-address", address]
    printed_by("extender", "--insecure-bind-address", *where)
    assert started["listen"] == (address or "0.0.0.0", 8888)
