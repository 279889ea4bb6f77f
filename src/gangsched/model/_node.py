"""``Node``: what pods can be placed on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from attrs import field, frozen

from gangsched.constraints import ContainerImage, Taint
from gangsched.model._names import NodeName
from gangsched.model._sequences import as_sorted_names
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_each,
    check_flag,
    check_text,
    check_texts,
)
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = ["Node"]


def _taints(given: Iterable[Taint]) -> tuple[Taint, ...]:
    return as_tuple(given)


def _images(given: Iterable[ContainerImage]) -> tuple[ContainerImage, ...]:
    return as_tuple(given)


@final
@frozen(kw_only=True)
class Node:
    """A node: its allocatable resources, its labels, its taints and its images.

    Attributes:
        name: The name, a non-empty string.
        allocatable: The resources that pods can reserve on the node in total. ``pods`` limits the
            number of pods: with ``pods: 0`` the node takes none, without ``pods`` any number.
        labels: The labels, as node selectors and affinity read them.
        taints: The taints; a pod that does not tolerate them is not placed here.
        unschedulable: Whether the node is cordoned: it takes no new pod.
        images: The container images that the node has.
        declared_features: The features that its kubelet declares, in ``status.declaredFeatures``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: NodeName = field(converter=NodeName, validator=check_text)
    allocatable: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    taints: tuple[Taint, ...] = field(
        default=(), converter=_taints, validator=check_each(Taint, "a Taint")
    )
    unschedulable: bool = field(default=False, validator=check_flag)
    images: tuple[ContainerImage, ...] = field(
        default=(), converter=_images, validator=check_each(ContainerImage, "a ContainerImage")
    )
    declared_features: tuple[str, ...] = field(
        default=(), converter=as_sorted_names, validator=check_each(str, "a string")
    )

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr
