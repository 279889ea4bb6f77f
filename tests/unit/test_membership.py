"""The claim of a pod: every spelling, valid and malformed, and three attributes without labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidPodGroupError
from gangsched.membership import SPELLINGS, Membership, Source, Spelling, membership, ungrouped
from gangsched.model import Pod, group_key

# The claim of a pod: every spelling, valid and malformed

WITH_MINIMUM = [
    spelling
    for spelling in SPELLINGS
    if spelling.minimum is not None and spelling.source is not Source.FIELD
]
"""The spellings whose minimum is text; the field's is in ``test_membership_of_fields``."""
NAMES = st.text(min_size=1)
MINIMA = st.integers(1, 10**9 - 1)


def claims(*written: tuple[Spelling, str | None, str | None]) -> Pod:
    """Return a pod on which each spelling is written with a name and a minimum."""
    fields: dict[str, Any] = {"labels": {}, "annotations": {}}
    for spelling, name, minimum in written:
        if name is not None:
            match spelling.source:
                case Source.FIELD:
                    fields["pod_group"] = name
                case Source.LABEL:
                    fields["labels"][spelling.name] = name
                case Source.ANNOTATION:
                    fields["annotations"][spelling.name] = name
        if minimum is not None and spelling.source is Source.FIELD:
            fields["min_available"] = int(minimum)
        elif minimum is not None:
            where = "annotations" if spelling.source is Source.ANNOTATION else "labels"
            fields[where][spelling.minimum] = minimum
    return Pod(name="p", namespace="ns", **fields)


def refusal(pod: Pod) -> InvalidPodGroupError:
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(pod)
    assert caught.value.subject == "pod ns/p"
    return caught.value


def name_of(spelling: Spelling) -> str:
    return spelling.name


def test_spellings_are_the_published_ones() -> None:
    """The 2020 proposal, scheduler-plugins, kube-batch, Volcano, Koordinator, KAI, in-tree."""
    assert [(spelling.source, spelling.name) for spelling in SPELLINGS] == [
        (Source.FIELD, "spec.schedulingGroup.podGroupName"),
        (Source.LABEL, "pod-group.scheduling.sigs.k8s.io/name"),
        (Source.LABEL, "pod-group/name"),
        (Source.LABEL, "scheduling.x-k8s.io/pod-group"),
        (Source.LABEL, "pod-group.scheduling.sigs.k8s.io"),
        (Source.ANNOTATION, "scheduling.k8s.io/group-name"),
        (Source.ANNOTATION, "scheduling.volcano.sh/group-name"),
        (Source.ANNOTATION, "gang.scheduling.koordinator.sh/name"),
        (Source.ANNOTATION, "pod-group-name"),
    ]
    assert [spelling.minimum for spelling in WITH_MINIMUM] == [
        "pod-group.scheduling.sigs.k8s.io/min-available",
        "pod-group/min-available",
        "gang.scheduling.koordinator.sh/min-available",
    ]


def test_pod_without_claim_is_regular() -> None:
    assert membership(Pod(name="p")) is None
    assert membership(Pod(name="p", labels={"app": "x"}, annotations={"note": "y"})) is None


def test_name_at_the_wrong_source_is_ignored() -> None:
    label, annotation = "pod-group/name", "scheduling.k8s.io/group-name"
    assert membership(Pod(name="p", annotations={label: "g"})) is None
    assert membership(Pod(name="p", labels={annotation: "g"})) is None


BAD_MINIMA = [
    "0",
    "-1",
    "two",
    "",
    "1.5",
    " 3",
    "3 ",
    "\u0663",
    "1e3",
    "+3",
    "0x3",
    "000",
    "1" * 10,
]


@pytest.mark.parametrize("minimum", BAD_MINIMA)
@pytest.mark.parametrize("spelling", WITH_MINIMUM, ids=name_of)
def test_minimum_that_is_no_positive_int_is_an_error(spelling: Spelling, minimum: str) -> None:
    """F51."""
    error = refusal(claims((spelling, "g", minimum)))
    assert (spelling.minimum, minimum) == (error.field, error.value)


@pytest.mark.parametrize("spelling", WITH_MINIMUM, ids=name_of)
def test_minimum_without_name_is_an_error(spelling: Spelling) -> None:
    error = refusal(claims((spelling, None, "3")))
    assert (spelling.name, None) == (error.field, error.value)
    assert str(spelling.minimum) in error.expected


PAIRS = [(first, second) for i, first in enumerate(SPELLINGS) for second in SPELLINGS[i + 1 :]]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_spellings_of_one_group_are_read_and_of_two_are_an_error(
    first: Spelling, second: Spelling
) -> None:
    error = refusal(claims((first, "g", None), (second, "h", None)))
    assert (second.name, "ns/h") == (error.field, error.value)
    assert "ns/g" in error.expected
    assert first.name in error.expected
    claim = membership(claims((first, "g", None), (second, "g", None)))
    assert Membership(group_key("ns", "g"), None, first) == claim


def test_different_minima_are_an_error_in_any_order() -> None:
    first, second, *_more = WITH_MINIMUM
    assert (
        refusal(claims((SPELLINGS[0], "g", None), (first, "g", "2"), (second, "g", "3"))).value == 3
    )


def test_minimum_of_any_spelling_counts() -> None:
    """The in-tree field names the group, an older label the minimum."""
    last = WITH_MINIMUM[-1]
    claim = membership(claims((SPELLINGS[0], "g", None), (last, "g", "4")))
    assert claim is not None
    assert claim.min_available == 4
    first, second, *_more = WITH_MINIMUM
    claim = membership(claims((first, "g", "4"), (second, "g", None)))
    assert claim is not None
    assert claim.min_available == 4


@given(st.sampled_from(SPELLINGS), NAMES, MINIMA)
def test_valid_claim_round_trips(spelling: Spelling, name: str, minimum: int) -> None:
    written = str(minimum) if spelling.minimum is not None else None
    claim = membership(claims((spelling, name, written)))
    expected = minimum if spelling.minimum is not None else None
    assert Membership(group_key("ns", name), expected, spelling) == claim


@given(st.dictionaries(st.sampled_from(SPELLINGS), st.sampled_from(["g", "h", ""]), min_size=1))
def test_claim_is_read_or_refused(written: dict[Spelling, str]) -> None:
    pod = claims(*((spelling, name, None) for spelling, name in written.items()))
    if len(set(written.values())) == 1 and "" not in written.values():
        assert membership(pod) is not None
    else:
        error = refusal(pod)
        assert error.field in [spelling.name for spelling in written]
        assert error.value in ("", "ns/g", "ns/h")


def test_ungrouped_makes_every_pod_regular() -> None:
    reader: Callable[[Pod], object] = ungrouped
    for spelling in SPELLINGS:
        assert reader(claims((spelling, "g", None))) is None


# Group, minimum and role of a pod that a program makes: three attributes, and no label

NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
ROLE_LABEL = "pod-group.scheduling.sigs.k8s.io/role"


def test_attributes_and_labels_claim_the_same() -> None:
    labels = {NAME_LABEL: "g", MINIMUM_LABEL: "4", ROLE_LABEL: "worker"}
    by_labels = membership(Pod(name="w-0", labels=labels))
    assert membership(Pod(name="w-0", role="worker")) is None
    by_fields = membership(Pod(name="w-0", pod_group="g", min_available=4, role="worker"))
    both = membership(Pod(name="w-0", labels=labels, pod_group="g", min_available=4, role="worker"))
    assert by_labels is not None
    assert by_fields == both == evolve(by_labels, spelling=SPELLINGS[0])


@pytest.mark.parametrize("labels", [{}, {NAME_LABEL: "g"}])
def test_minimum_without_the_attribute_that_names_the_group_is_an_error(
    labels: dict[str, str],
) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(Pod(name="w-0", min_available=4, labels=labels))
    assert caught.value.expected == "present beside Pod.min_available"


@pytest.mark.parametrize(
    ("label", "field"), [(MINIMUM_LABEL, MINIMUM_LABEL), (ROLE_LABEL, ROLE_LABEL)]
)
def test_label_that_contradicts_an_attribute_is_an_error(label: str, field: str) -> None:
    labels = {NAME_LABEL: "g", label: "7"}
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(Pod(name="w-0", pod_group="g", min_available=4, role="worker", labels=labels))
    assert caught.value.field == field
    assert "Pod." in caught.value.expected
