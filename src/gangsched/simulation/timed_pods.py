"""Pods from documents, with the annotations of the simulation checked."""

from __future__ import annotations

from gangsched.errors import InvalidValueError
from gangsched.manifests import Field, Manifest, read_pod
from gangsched.model import Pod
from gangsched.simulation._job_fields import note_pod
from gangsched.simulation.workload import fail_seconds, job_of, run_seconds

__all__ = ["read_timed_pod"]


def read_timed_pod(manifest: Manifest, template: Field) -> Pod:
    """Return a pod as ``read_pod`` does; notes name what it asks other programs for.

    Raises:
        ManifestError: Something in the document is malformed, or an annotation of the simulation.
    """
    pod = read_pod(manifest, template)
    note_pod(manifest, template)
    try:
        run_seconds(pod)
        fail_seconds(pod)
        job_of(pod)
    except InvalidValueError as error:
        raise template["metadata"]["annotations"][error.field].refuse_as(error) from error
    return pod
