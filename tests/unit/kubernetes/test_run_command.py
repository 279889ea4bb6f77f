"""What ``gangsched run`` says when it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gangsched.cli import main

pytestmark = pytest.mark.once("makes no scheduler")

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: x, context: {cluster: c}}]
current-context: x
"""


def test_run_says_that_its_address_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = main(["run", "--kubeconfig", str(kubeconfig), "--serve", address])
    said = capsys.readouterr().err
    assert code == 2
    assert "in use" in said
    assert "standard output" not in said
