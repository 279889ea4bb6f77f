"""The pods with a malformed claim, by the group that their labels name."""

from __future__ import annotations

import pytest

from gangsched.errors import InvalidPodGroupError
from gangsched.kubernetes._malformed import MalformedClaims, group_named
from gangsched.membership import ADMISSION_SPELLINGS, SPELLINGS, Source, Spelling, membership
from gangsched.model import GroupKey, Pod

PREFIX = "pod-group.scheduling.sigs.k8s.io"


def pod(name: str, group: str) -> Pod:
    labels = {f"{PREFIX}/name": group, f"{PREFIX}/min-available": "0"}
    return Pod(namespace="default", name=name, labels=labels)


def error_of(malformed: Pod) -> InvalidPodGroupError:
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(malformed)
    return caught.value


def test_pod_is_under_the_group_that_it_named_last() -> None:
    claims = MalformedClaims()
    first, second = pod("a", "one"), pod("a", "two")
    for each in (first, second):
        claims.put(each, error_of(each))
        claims._check()
    assert list(claims.groups()) == ["default/two"]
    assert list(claims.of(GroupKey("default/two"))) == [second.uid]
    claims.discard(second.uid)
    claims._check()
    assert not claims.groups()
    assert claims.of(GroupKey("default/two")) == {}
    nameless = Pod(namespace="default", name="a", labels={f"{PREFIX}/min-available": "2"})
    claims.put(nameless, error_of(nameless))
    claims._check()
    assert not claims.groups()


@pytest.mark.parametrize("spelling", [*SPELLINGS, *ADMISSION_SPELLINGS], ids=lambda s: s.name)
def test_group_is_read_from_every_spelling(spelling: Spelling) -> None:
    held = {spelling.name: "g"}
    named = {
        Source.FIELD: Pod(namespace="n", name="a", pod_group="g"),
        Source.LABEL: Pod(namespace="n", name="a", labels=held),
        Source.ANNOTATION: Pod(namespace="n", name="a", annotations=held),
    }
    assert group_named(named[spelling.source]) == "n/g"
