"""Claims of pods that say the same are read once; errors name the pod that is asked about."""

from __future__ import annotations

import pytest

from gangsched import InvalidPodGroupError, Pod
from gangsched.membership import membership

_NAME = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


def test_each_attribute_that_a_claim_is_read_from_tells_pods_apart() -> None:
    labels = {_NAME: "train", _MINIMUM: "2"}
    first = membership(Pod(name="a", labels=labels))
    assert first is not None
    assert (first.group, first.min_available, first.role) == ("default/train", 2, None)
    elsewhere = membership(Pod(name="a", namespace="other", labels=labels))
    assert elsewhere is not None
    assert elsewhere.group == "other/train"
    with_role = membership(Pod(name="a", labels=labels, role="worker"))
    assert with_role is not None
    assert with_role.role == "worker"
    by_field = membership(Pod(name="a", pod_group="train", min_available=3))
    assert by_field is not None
    assert by_field.min_available == 3
    other_minimum = membership(Pod(name="a", pod_group="train", min_available=4))
    assert other_minimum is not None
    assert other_minimum.min_available == 4
    annotated = {"scheduling.k8s.io/group-name": "train"}
    by_annotation = membership(Pod(name="a", annotations=annotated))
    assert by_annotation is not None
    assert by_annotation.min_available is None


def test_like_members_have_one_claim() -> None:
    labels = {_NAME: "once", _MINIMUM: "2"}

    assert membership(Pod(name="a", labels=labels)) is membership(Pod(name="b", labels=labels))


def test_error_about_a_claim_names_the_pod_that_is_asked_about() -> None:
    labels = {_NAME: "train", _MINIMUM: "zero"}
    for name in ("first", "second", "first"):
        with pytest.raises(InvalidPodGroupError) as caught:
            membership(Pod(name=name, labels=labels))

        assert str(caught.value).startswith(f"pod default/{name}")
        assert (caught.value.field, caught.value.value) == (_MINIMUM, "zero")
