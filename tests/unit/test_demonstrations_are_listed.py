"""The README of the demonstrations names each of them."""

from __future__ import annotations

import pytest

from gangsched.configuration import read_settings
from gangsched.errors import InvalidValueError
from support.documents import ROOT
from support.on_a_cluster import DEMONSTRATIONS

README = ROOT / "examples" / "on-a-cluster" / "README.md"


def test_readme_names_each_demonstration() -> None:
    if not README.exists():
        pytest.skip("an installed copy: the examples are not here")
    text = README.read_text("utf-8")
    assert [name for name in DEMONSTRATIONS if f"`{name}`" not in text] == []


def test_error_for_two_profiles_says_what_to_run_instead() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(InvalidValueError, match="run a second process with a file"):
        read_settings({**head, "profiles": profiles})
