"""Pods that run for a time: what a pod document says, with its run time checked."""

from __future__ import annotations

from gangsched.errors import InvalidValueError
from gangsched.model import Pod
from gangsched.objects import Field, Manifest, read_pod
from gangsched.simulation.workload import RUN_SECONDS, run_seconds

__all__ = ["read_running_pod"]


def read_running_pod(manifest: Manifest, template: Field) -> Pod:
    """Return a pod as ``read_pod`` does.

    Raises:
        ManifestError: Something in it is malformed, or the annotation that says how long it runs.
    """
    pod = read_pod(manifest, template)
    try:
        run_seconds(pod)
    except InvalidValueError as error:
        raise template["metadata"]["annotations"][RUN_SECONDS].refuse_as(error) from error
    return pod
