"""What reading a manifest costs: calls of functions are counted, not seconds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gangsched.simulation.manifests import load_manifests


def calls_to_read(documents: list[dict[str, Any]]) -> int:
    """Return the number of function calls that reading the documents as JSON makes."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        load_manifests(text, file="f")
    finally:
        sys.setprofile(before)
    return calls


def container(name: str, **more: str) -> dict[str, Any]:
    """Return a container that requests a resource of its own."""
    return {
        "name": name,
        "image": "i",
        "resources": {"requests": {"cpu": "1m", f"example.com/{name}": "1"}},
        **more,
    }


def pod(name: str, *, sidecars: int = 0, containers: int = 1) -> dict[str, Any]:
    """Return a pod; one init container ends before each sidecar begins."""
    spec = {
        "containers": [container(f"c{n}") for n in range(containers)],
        "initContainers": [
            each
            for n in range(sidecars)
            for each in (container(f"i{n}"), container(f"s{n}", restartPolicy="Always"))
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def sidecars_of_a_pod(count: int) -> list[dict[str, Any]]:
    return [pod("p", sidecars=count)]


def containers_of_a_pod(count: int) -> list[dict[str, Any]]:
    return [pod("p", containers=count)]


def pods(count: int) -> list[dict[str, Any]]:
    return [pod(f"p{n}") for n in range(count)]


@pytest.mark.parametrize("documents", [sidecars_of_a_pod, containers_of_a_pod, pods])
def test_manifest_is_read_in_linear_time(
    documents: Callable[[int], list[dict[str, Any]]],
) -> None:
    """5,000 sidecars of one pod took 4 s, as each was compared with all before it."""
    small, large = calls_to_read(documents(250)), calls_to_read(documents(1000))
    assert large < 6 * small, "four times as much to read"
