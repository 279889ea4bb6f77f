"""The fields of Kubernetes' API that a scheduler may read, as data.

Source: the Go types of k8s.io/api v0.37.2, core/v1 (``PodSpec``, ``NodeSpec``, ``NodeStatus``) and
scheduling/v1beta1 (``PodGroupSpec``, ``WorkloadSpec``), with what only v1alpha2 of v0.36.3 has; for
the other dialects of groups, their custom resources. ``tests/kubernetes/test_api_fields.py``
compares the native types with what an API server publishes.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "COMPOSITE_SPEC",
    "GONE_FROM_GROUPS",
    "GROUP_SPECS",
    "NODE",
    "POD_SPEC",
    "WORKLOAD_SPEC",
]

POD_SPEC: Final = (
    *("volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy"),
    *("terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy", "nodeSelector"),
    *("serviceAccountName", "serviceAccount", "automountServiceAccountToken", "nodeName"),
    *("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "securityContext"),
    *("imagePullSecrets", "hostname", "subdomain", "affinity", "schedulerName", "tolerations"),
    *("hostAliases", "priorityClassName", "priority", "dnsConfig", "readinessGates"),
    *("runtimeClassName", "enableServiceLinks", "preemptionPolicy", "overhead"),
    *("topologySpreadConstraints", "setHostnameAsFQDN", "os", "hostUsers", "schedulingGates"),
    *("resourceClaims", "resources", "hostnameOverride", "schedulingGroup"),
    *("evictionResponders",),
)
"""``PodSpec`` of Kubernetes 1.37."""

NODE: Final = (
    *("spec.podCIDR", "spec.podCIDRs", "spec.providerID", "spec.unschedulable", "spec.taints"),
    *("spec.configSource", "spec.externalID", "spec.podPreemptionPolicy"),
    *("status.capacity", "status.allocatable", "status.phase", "status.conditions"),
    *("status.addresses", "status.daemonEndpoints", "status.nodeInfo", "status.images"),
    *("status.volumesInUse", "status.volumesAttached", "status.config"),
    *("status.runtimeHandlers", "status.features", "status.declaredFeatures"),
)
"""``NodeSpec`` and ``NodeStatus`` of Kubernetes 1.37."""

GONE_FROM_GROUPS: Final = ("podGroupTemplateRef",)
"""What ``PodGroupSpec`` of Kubernetes 1.36 had, and that of 1.37 has not."""

WORKLOAD_SPEC: Final = ("controllerRef", "podGroupTemplates", "compositePodGroupTemplates")
"""``WorkloadSpec`` of Kubernetes 1.37."""

COMPOSITE_SPEC: Final = (
    *("parentCompositePodGroupName", "workloadRef", "schedulingPolicy", "schedulingConstraints"),
    *("disruptionMode", "priorityClassName", "priority", "preemptionPolicy"),
)
"""``CompositePodGroupSpec`` of Kubernetes 1.37."""

GROUP_SPECS: Final = {
    "scheduling.k8s.io": (
        *GONE_FROM_GROUPS,
        *("parentCompositePodGroupName", "workloadRef", "schedulingPolicy"),
        *("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName"),
        *("priority", "preemptionPolicy"),
    ),
    "scheduling.x-k8s.io": ("minMember", "minResources", "scheduleTimeoutSeconds"),
    "scheduling.volcano.sh": (
        *("minMember", "minTaskMember", "queue", "priorityClassName", "minResources"),
        *("networkTopology", "subGroupPolicy"),
    ),
    "scheduling.run.ai": (
        *("minMember", "minSubGroup", "queue", "priorityClassName", "preemptibility"),
        *("topologyConstraint", "subGroups", "markUnschedulable", "schedulingBackoff"),
        *("preemptionDelay", "stalenessGracePeriod"),
    ),
    "scheduling.incubator.k8s.io": (
        *("minMember", "minMembers", "queue", "priorityClassName", "minResources"),
        *("scheduleTimeoutSeconds",),
    ),
}
"""``PodGroupSpec`` of each dialect, by API group."""
