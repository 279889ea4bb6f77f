"""Of long annotations the longest are left out, but none that names a group."""

from __future__ import annotations

import pytest

from gangsched.errors import InvalidPodGroupError
from gangsched.kubernetes._annotations import MOST, kept_annotations
from gangsched.membership import membership
from gangsched.model import Pod, PodUID
from gangsched.resources import FrozenMap

NAME = "scheduling.k8s.io/group-name"


def pod(annotations: dict[str, str]) -> Pod:
    return Pod(name="p", uid=PodUID("p"), annotations=kept_annotations(annotations))


def test_short_annotations_are_the_same_object() -> None:
    given = FrozenMap({"a": "1", NAME: "g"})
    assert kept_annotations(given) is given


def test_longest_annotations_are_left_out() -> None:
    given = {"a": "1", "long": "x" * MOST, "b": "2"}
    assert dict(kept_annotations(given)) == {"a": "1", "b": "2"}


def test_name_of_a_group_stays_beside_any_number_of_shorter_annotations() -> None:
    others = {f"k{n}": "x" * 90 for n in range(1000)}
    found = membership(pod({**others, NAME: "g" * 200}))
    assert found is not None
    assert found.group == f"default/{'g' * 200}"


def test_name_that_is_far_too_long_is_refused_and_does_not_let_its_pod_start_alone() -> None:
    with pytest.raises(InvalidPodGroupError, match="at most 253 characters"):
        membership(pod({NAME: "x" * 200_000}))
