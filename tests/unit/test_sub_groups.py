"""``subGroupPolicy`` of Volcano: which tree it is, which pods are where, and what holds."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import LabelSelector, ManifestError, PodGroup, Role
from gangsched.model import LabelledRole
from support.trees_of_peers import Document, group_in, pod_document, read, read_from_list, starts

TASK = "volcano.sh/task-spec"
PART = "volcano.sh/partition-id"
GROUP = "scheduling.volcano.sh/group-name"


def volcano(**spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": spec,
    }


def policy(
    name: str = "worker",
    keys: tuple[str, ...] = (PART,),
    select: dict[str, str] | None = None,
    **more: Any,
) -> Document:
    selector = {} if select is None else {"labelSelector": {"matchLabels": select}}
    return {"name": name, "matchLabelKeys": [*keys], "subGroupSize": 2, **selector, **more}


def of_task(task: str, **more: Any) -> Document:
    """Return a policy as Volcano's controller of jobs writes it."""
    return policy(task, select={TASK: task}, **more)


def copies(needed: int, size: int = 2) -> Role:
    return Role(needed, roles={"member": size})


def numbered(name: str = "worker", select: dict[str, str] | None = None) -> LabelledRole:
    return LabelledRole(f"{name}/*/member", LabelSelector(select or {}), number=PART)


def pod(part: object, number: int = 0, task: str = "worker", **labels: str) -> Document:
    marks = {TASK: task, **({} if part is None else {PART: f"{part}"}), **labels}
    name = f"{task}-{part}-{number}".lower()
    return pod_document(name, labels=marks, annotations={GROUP: "job", TASK: task})


def part(number: object, size: int = 2, task: str = "worker") -> list[Document]:
    return [pod(number, n, task) for n in range(size)]


# Trees ------------------------------------------------------------------------------------------

TREES: dict[str, tuple[Document, PodGroup]] = {
    "k sub groups": (
        volcano(minMember=4, subGroupPolicy=[policy(minSubGroups=2)]),
        PodGroup(name="job", roles={"worker": copies(2)}, labelled_roles=[numbered()]),
    ),
    "more pods than sub groups need": (
        volcano(minMember=9, subGroupPolicy=[policy(minSubGroups=2)]),
        PodGroup(
            name="job", roles={"worker": copies(2)}, min_available=9, labelled_roles=[numbered()]
        ),
    ),
    "fewer pods than sub groups need": (
        volcano(minMember=1, subGroupPolicy=[policy(minSubGroups=3)]),
        PodGroup(name="job", roles={"worker": copies(3)}, labelled_roles=[numbered()]),
    ),
    "sub groups that make minMember": (
        volcano(minMember=5, subGroupPolicy=[policy()]),
        PodGroup(name="job", roles={"worker": copies(3)}, labelled_roles=[numbered()]),
    ),
    "defaults": (
        volcano(subGroupPolicy=[{"matchLabelKeys": [PART]}]),
        PodGroup(
            name="job", roles={"policy-0": copies(1, 1)}, labelled_roles=[numbered("policy-0")]
        ),
    ),
    "a job with minPartitions": (
        volcano(
            minMember=5,
            minTaskMember={"worker": 4, "ps": 1},
            subGroupPolicy=[of_task("worker", minSubGroups=2)],
        ),
        PodGroup(
            name="job",
            roles={"worker": copies(2), "ps": 1},
            labelled_roles=[numbered(select={TASK: "worker"})],
        ),
    ),
    "a job without minPartitions, all replicas of which are needed": (
        volcano(
            minMember=7,
            minTaskMember={"worker": 6, "ps": 1},
            subGroupPolicy=[of_task("worker", minSubGroups=0)],
        ),
        PodGroup(
            name="job",
            roles={"worker": copies(3), "ps": 1},
            labelled_roles=[numbered(select={TASK: "worker"})],
        ),
    ),
    "a minimum of tasks that Volcano ignores": (
        volcano(
            minMember=3,
            minTaskMember={"worker": 6},
            subGroupPolicy=[of_task("worker", minSubGroups=1)],
        ),
        PodGroup(
            name="job",
            roles={"worker": copies(1)},
            min_available=3,
            labelled_roles=[numbered(select={TASK: "worker"})],
        ),
    ),
    "labels that the selector fixes": (
        volcano(
            minMember=3,
            subGroupPolicy=[
                policy("a", ("clique",), {"clique": "a"}, minSubGroups=1, subGroupSize=1),
                policy("b", ("clique",), {"clique": "b"}, minSubGroups=1, subGroupSize=2),
            ],
        ),
        PodGroup(
            name="job",
            roles={"a": 1, "b": 2},
            labelled_roles=[
                LabelledRole("a", LabelSelector({"clique": "a"})),
                LabelledRole("b", LabelSelector({"clique": "b"})),
            ],
        ),
    ),
    "one of two labels that the selector fixes": (
        volcano(
            minMember=2,
            subGroupPolicy=[policy(keys=(TASK, PART), select={TASK: "x"}, minSubGroups=1)],
        ),
        PodGroup(
            name="job",
            roles={"worker": copies(1)},
            labelled_roles=[numbered(select={TASK: "x"})],
        ),
    ),
    "a policy with another name than its task": (
        volcano(
            minMember=4,
            minTaskMember={"worker": 4},
            subGroupPolicy=[{**of_task("worker", minSubGroups=2), "name": "parts"}],
        ),
        PodGroup(
            name="job",
            roles={"parts": copies(2)},
            labelled_roles=[numbered("parts", {TASK: "worker"})],
        ),
    ),
    "a soft topology": (
        volcano(
            minMember=2,
            subGroupPolicy=[policy(minSubGroups=1, networkTopology={"mode": "soft"})],
        ),
        PodGroup(name="job", roles={"worker": copies(1)}, labelled_roles=[numbered()]),
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_policies_are_roles_of_copies(name: str) -> None:
    document, expected = TREES[name]
    assert group_in(document) == expected
    assert read_from_list(document) == expected


HELD: dict[str, tuple[list[Document], dict[str, int], str]] = {
    "a hard topology": (
        [policy(minSubGroups=1, networkTopology={"highestTierAllowed": 1})],
        {},
        "spec.subGroupPolicy[0].networkTopology"
        " (its tiers are known with levels: {from: volcano} only)",
    ),
    "several labels": (
        [policy(keys=("a", "b"), minSubGroups=1)],
        {},
        "spec.subGroupPolicy[0].matchLabelKeys (several labels together number no sub group)",
    ),
    "no label": (
        [policy(keys=(), minSubGroups=1)],
        {},
        "spec.subGroupPolicy[0].matchLabelKeys (without labels, it selects no pod)",
    ),
    "two sub groups where there is one": (
        [policy(keys=("a",), select={"a": "b"}, minSubGroups=2)],
        {},
        "spec.subGroupPolicy[0].minSubGroups (its labels make one sub group)",
    ),
    "any sub groups of several policies": (
        [of_task("a", minSubGroups=1), of_task("b")],
        {},
        "spec.subGroupPolicy[1].minSubGroups (0 says not which sub groups make minMember)",
    ),
    "any sub groups, or other pods": (
        [of_task("a")],
        {},
        "spec.subGroupPolicy[0].minSubGroups (0 says not which sub groups make minMember)",
    ),
    "tasks in sub groups in part": (
        [policy(minSubGroups=1)],
        {"a": 1},
        "spec.minTaskMember (it is about pods of sub groups in part)",
    ),
    "a task in two policies": (
        [of_task("a", minSubGroups=1), {**of_task("a", minSubGroups=1), "name": "b"}],
        {"a": 2},
        "spec.minTaskMember (it is about pods of sub groups in part)",
    ),
    "more of a task than its one sub group": (
        [policy("a", (TASK,), {TASK: "a"}, minSubGroups=1)],
        {"a": 3},
        "spec.minTaskMember (it is about pods of sub groups in part)",
    ),
    "two policies of one name": (
        [of_task("a", minSubGroups=1), {**of_task("b", minSubGroups=1), "name": "a"}],
        {},
        "spec.subGroupPolicy[1].name (another policy has this name)",
    ),
    "an unknown field": (
        [policy(minSubGroups=1, spread="rack")],
        {},
        "spec.subGroupPolicy[0].spread",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_has_no_meaning_here_holds_the_pods_and_says_why(name: str) -> None:
    policies, tasks, reason = HELD[name]
    document = volcano(minMember=6, minTaskMember=tasks, subGroupPolicy=policies)
    group = group_in(document)
    assert (group.unmodelled, group.labelled_roles) == ((reason,), ())
    assert starts([document, *part(0, 6)], cpu=99) == (set(), {})
    assert reason.partition(" (")[0] in " ".join(note.text for note in read(document).notes)


@pytest.mark.parametrize("name", HELD)
def test_policies_that_are_to_be_ignored_count_for_nothing(name: str) -> None:
    policies, tasks, reason = HELD[name]
    document = volcano(minMember=6, minTaskMember=tasks, subGroupPolicy=policies)
    for path in (
        "spec.subGroupPolicy",
        reason.partition(" (")[0].replace("[0]", "").replace("[1]", ""),
    ):
        if "subGroupPolicy" in path and "minTaskMember" in reason:
            continue
        group = group_in(document, ignore=[path])
        assert (group.unmodelled, group.labelled_roles) == ((), ())
        assert group == PodGroup(name="job", min_available=6, roles=tasks)


def test_policy_that_could_be_read_is_ignored_if_one_asks_for_it() -> None:
    document = volcano(minMember=4, subGroupPolicy=[policy(minSubGroups=2)])
    group = group_in(document, ignore=["spec.subGroupPolicy"])
    assert group == PodGroup(name="job", min_available=4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": "a.b"},
        {"subGroupSize": 0},
        {"minSubGroups": -1},
        {"matchLabelKeys": "a"},
        {"matchLabelKeys": [""]},
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
    ],
)
def test_malformed_policy_is_refused(wrong: Document) -> None:
    with pytest.raises(ManifestError, match="subGroupPolicy"):
        group_in(volcano(subGroupPolicy=[{**policy(), **wrong}]))


# Pods -------------------------------------------------------------------------------------------


def test_as_many_sub_groups_start_as_are_needed_and_each_further_one_as_a_whole() -> None:
    group = volcano(minMember=4, subGroupPolicy=[policy(minSubGroups=2)])
    pods = [each for number in range(4) for each in part(number)]
    bound, _refused = starts([group, *pods], cpu=7)
    assert bound == {f"worker-{number}-{n}" for number in (0, 1, 2) for n in (0, 1)}
    assert starts([group, *pods], cpu=3)[0] == set()
    assert starts([group, *part(0), pod(1)], cpu=9)[0] == set(), "one sub group is half there"


def test_pods_of_no_sub_group_count_for_the_minimum_only() -> None:
    group = volcano(minMember=3, subGroupPolicy=[policy(minSubGroups=1)])
    assert starts([group, pod(None), *part(0)], cpu=9)[0] == {
        "worker-none-0",
        "worker-0-0",
        "worker-0-1",
    }
    assert starts([group, pod(None, 0), pod(None, 1), pod(None, 2)], cpu=9)[0] == set()


def test_first_policy_that_selects_a_pod_counts() -> None:
    first = policy("first", select={"kind": "big"}, minSubGroups=1)
    second = policy("second", minSubGroups=1)
    group = volcano(minMember=4, subGroupPolicy=[first, second])
    big = [pod(0, n, "big", kind="big") for n in range(2)]
    assert starts([group, *big, *part(0)], cpu=9)[0] == {
        *("big-0-0", "big-0-1", "worker-0-0", "worker-0-1")
    }
    assert starts([group, *part(0), *part(1)], cpu=9)[0] == set(), "none is of the first policy"


def test_task_with_sub_groups_beside_one_without() -> None:
    group = volcano(
        minMember=5,
        minTaskMember={"worker": 4, "ps": 1},
        subGroupPolicy=[of_task("worker", minSubGroups=2)],
    )
    workers = [*part(0), *part(1), *part(2)]
    assert starts([group, *workers], cpu=9)[0] == set(), "the server is missing"
    bound, _refused = starts([group, *workers, pod(None, task="ps")], cpu=6)
    assert bound == {"ps-none-0", *(f"worker-{number}-{n}" for number in (0, 1) for n in (0, 1))}


def test_pod_with_a_label_that_numbers_no_sub_group_is_refused_and_told() -> None:
    group = volcano(minMember=2, subGroupPolicy=[policy(minSubGroups=1)])
    bound, refused = starts([group, pod("left"), *part(0)], cpu=9)
    assert bound == {"worker-0-0", "worker-0-1"}
    assert PART in refused["worker-left-0"]
    assert "got 'left'" in refused["worker-left-0"]
