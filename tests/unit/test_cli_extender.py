"""``gangsched extender``: its options, and what it says about bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from gangsched.kubernetes import Serving, Settings
from gangsched.kubernetes.extender import Holding
from support.documents import fails, run_command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the command would run with."""
    found: dict[str, object] = {}

    async def note(settings: Settings, **named: object) -> None:
        found.update(named, settings=settings)

    monkeypatch.setattr("gangsched.kubernetes.extender._run.run_extender", note)
    return found


def test_options_reach_the_extender(started: dict[str, object]) -> None:
    code, _printed = run_command(
        *("extender", "--bind-address", "127.0.0.1", "--port", "7", "--serve", ""),
        *("--scheduler-name", "a", "--scheduler-name", "b", "--hold-timeout", "1m"),
        *("--label-pod", "ns/pod"),
    )
    assert code == 0
    settings = started["settings"]
    assert isinstance(settings, Settings)
    assert settings.profile.scheduler_names == ("a", "b")
    assert started["listen"] == ("127.0.0.1", 7)
    assert started["serve"] is None
    assert started["context"] is None
    assert started["holding"] == Holding(timeout=60.0)
    assert started["pod"] == "ns/pod"


def test_scheduler_name_is_that_of_the_configuration_by_default(
    started: dict[str, object], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{schedulerName: ours}]\n", encoding="utf-8")
    assert run_command("extender", "--config", str(config))[0] == 0
    settings = started["settings"]
    assert isinstance(settings, Settings)
    assert settings.profile.scheduler_names == ("ours",)
    assert started["listen"] == ("127.0.0.1", 8888)
    assert started["serve"] == Serving("0.0.0.0", 8889)


def test_certificate_turns_https_on(started: dict[str, object], tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    files = (f"--tls-cert={tmp_path / 'crt'}", f"--tls-key={tmp_path / 'key'}")
    assert run_command("extender", *files)[0] == 0
    assert started["context"] is not None
    assert started["listen"] == ("0.0.0.0", 8888)


def test_verbs_are_served_to_others_in_plain_http_only_if_that_is_said(
    started: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "'10.0.0.1'" in fails(capsys, "extender", "--bind-address", "10.0.0.1")
    insecure = "--insecure-bind-address"
    assert run_command("extender", "--bind-address", "10.0.0.1", insecure)[0] == 0
    assert started["listen"] == ("10.0.0.1", 8888)
    assert run_command("extender", insecure)[0] == 0
    assert started["listen"] == ("0.0.0.0", 8888)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--port", "70000"), "--port: expected 0 to 65535, got 70000"),
        (("--serve", "nowhere"), "--serve: expected HOST:PORT, got 'nowhere'"),
        (("--hold-timeout", "0"), "--hold-timeout: expected more than 0 s"),
        (("--label-pod", "x"), "--label-pod: expected NAMESPACE/NAME, got 'x'"),
        (("--tls-cert", "c"), "--tls-cert and --tls-key: expected both of them, or neither"),
        (("--serve-cert", "c"), "--serve-cert and --serve-key: expected both of them, or neither"),
        (
            ("--serve-cert", "absent", "--serve-key", "absent"),
            "--serve-cert, --serve-key: tls must",
        ),
        (
            ("--insecure-serve", "--serve-cert", "c", "--serve-key", "k"),
            "--insecure-serve: expected without --serve-cert",
        ),
        (("--health", "nowhere"), "--health: expected HOST:PORT, got 'nowhere'"),
        (("--health", ":1", "--serve", ""), "--health: expected with --serve only"),
        (("--client-ca", "c"), "--client-ca: expected with --tls-cert and --tls-key only"),
        (
            ("--tls-cert", "absent", "--tls-key", "absent"),
            "tls must be a certificate and its key: ",
        ),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    assert expected in fails(capsys, "extender", *words)


def test_address_that_is_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = fails(capsys, "extender", "--bind-address", "127.0.0.1", "--port", port)
    assert said.startswith("gangsched: extender: ")
    assert "address already in use" in said
