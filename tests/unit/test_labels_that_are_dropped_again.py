"""Labels without readers are dropped at the same count and cost each time."""

from __future__ import annotations

from gangsched.framework.nodes.labels_read import LabelsRead

NAMES = [f"label-{number}" for number in range(9)]


def test_labels_are_dropped_at_the_same_number_the_second_time() -> None:
    labels = LabelsRead()
    labels.add(["zone"])
    for _round in range(2):
        labels.add(NAMES)
        assert [labels.discard([name]) for name in NAMES] == [False] * 8 + [True]
        assert (labels.keys, labels.idle) == (("zone",), 0)


def test_idle_label_is_dropped_after_as_many_changes_as_nodes_each_time() -> None:
    labels = LabelsRead()
    for begin in (0, 100):
        labels.add(["zone"])
        assert not labels.discard(["zone"])
        dropped = [labels.forget_idle(begin + changes, 3) for changes in range(4)]
        assert dropped == [False, False, False, True]
        assert labels.keys == ()
