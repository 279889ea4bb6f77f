"""Affinity of pods and topology spread constraints, from a specification of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from gangsched.constraints import (
    NodeInclusionPolicy,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.errors import InvalidValueError
from gangsched.manifests.fields import Field
from gangsched.manifests.selectors import read_label_selector, read_node_selector_term

__all__ = [
    "PREFERRED",
    "REQUIRED",
    "read_pod_terms",
    "read_preferred_node_terms",
    "read_spread",
    "read_weighted_pod_terms",
]

T = TypeVar("T")

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_POLICIES: Final = tuple(policy.value for policy in NodeInclusionPolicy)
_WHEN: Final = tuple(when.value for when in WhenUnsatisfiable)


def read_pod_terms(field: Field) -> Iterator[PodAffinityTerm]:
    """Yield the required terms of ``podAffinity`` or ``podAntiAffinity``.

    Raises:
        ManifestError: A term is malformed.
    """
    yield from map(_pod_term, field[REQUIRED].elements())


def read_weighted_pod_terms(field: Field) -> Iterator[WeightedPodAffinityTerm]:
    """Yield the preferred terms of ``podAffinity`` or ``podAntiAffinity``.

    Raises:
        ManifestError: A term is malformed.
    """
    for each in field[PREFERRED].elements():
        weight = each["weight"].whole(least=1, most=100)
        term = _pod_term(each["podAffinityTerm"].required())
        yield WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)


def read_preferred_node_terms(field: Field) -> Iterator[PreferredSchedulingTerm]:
    """Yield the preferred terms of ``nodeAffinity``.

    Raises:
        ManifestError: A term is malformed.
    """
    for each in field[PREFERRED].elements():
        weight = each["weight"].whole(least=1, most=100)
        term = read_node_selector_term(each["preference"])
        yield PreferredSchedulingTerm(weight=weight, preference=term)


def read_spread(field: Field) -> Iterator[TopologySpreadConstraint]:
    """Yield the constraints of ``topologySpreadConstraints``.

    Raises:
        ManifestError: A constraint is malformed.
    """
    for each in field.elements():
        yield _made(each, partial(_spread_constraint, each))


def _spread_constraint(field: Field) -> TopologySpreadConstraint:
    least = field["minDomains"]
    return TopologySpreadConstraint(
        max_skew=field["maxSkew"].whole(least=1),
        topology_key=field["topologyKey"].name(),
        when_unsatisfiable=WhenUnsatisfiable(field["whenUnsatisfiable"].word(_WHEN)),
        label_selector=read_label_selector(field["labelSelector"]),
        min_domains=least.whole(least=1) if least.given else None,
        node_affinity_policy=_policy(field["nodeAffinityPolicy"], "Honor"),
        node_taints_policy=_policy(field["nodeTaintsPolicy"], "Ignore"),
        match_label_keys=_names(field["matchLabelKeys"]),
    )


def _policy(field: Field, default: str) -> NodeInclusionPolicy:
    return NodeInclusionPolicy(field.word(_POLICIES, default))


def _pod_term(field: Field) -> PodAffinityTerm:
    return _made(
        field,
        lambda: PodAffinityTerm(
            topology_key=field["topologyKey"].name(),
            label_selector=read_label_selector(field["labelSelector"]),
            namespaces=_names(field["namespaces"]),
            namespace_selector=read_label_selector(field["namespaceSelector"]),
            match_label_keys=_names(field["matchLabelKeys"]),
            mismatch_label_keys=_names(field["mismatchLabelKeys"]),
        ),
    )


def _names(field: Field) -> tuple[str, ...]:
    return tuple(each.name() for each in field.elements())


def _made(field: Field, make: Callable[[], T]) -> T:
    """Return a value, or raise its error as an error about the field that it was read from."""
    try:
        return make()
    except InvalidValueError as error:
        raise field.refuse_as(error) from error
