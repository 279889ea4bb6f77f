{{- /* What a schema cannot say of the values: each refusal has the name of the value, and the value. */ -}}

{{- define "gangsched.checks" -}}
{{- include "gangsched.checks.durations" . -}}
{{- include "gangsched.checks.plugins" . -}}
{{- include "gangsched.checks.quotas" . -}}
{{- range $kind, $amounts := .Values.resources -}}
{{- if has $kind (list "requests" "limits") -}}
{{- range $name, $amount := $amounts -}}
{{- include "gangsched.checks.quantity" (dict "at" (printf "resources.%s.%s" $kind $name) "value" $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A leader that is late must know it before another one takes over. */ -}}
{{- define "gangsched.checks.durations" -}}
{{- $of := .Values.configuration -}}
{{- $election := $of.leaderElection | default dict -}}
{{- $less := list
  (list "configuration.leaderElection.renewDeadline" $election.renewDeadline "10s" "leaseDuration" $election.leaseDuration "15s")
  (list "configuration.leaderElection.retryPeriod" $election.retryPeriod "2s" "renewDeadline" $election.renewDeadline "10s") -}}
{{- range $less -}}
{{- $value := eq (toString (index . 1)) "<nil>" | ternary (index . 2) (index . 1) -}}
{{- $limit := eq (toString (index . 4)) "<nil>" | ternary (index . 5) (index . 4) -}}
{{- if ge (include "gangsched.milliseconds" $value | float64) (include "gangsched.milliseconds" $limit | float64) -}}
{{- fail (printf "%s: expected less than %s, which is %v, got %v" (index . 0) (index . 3) $limit $value) -}}
{{- end -}}
{{- end -}}
{{- $first := dig "podInitialBackoffSeconds" 1 $of -}}
{{- $last := dig "podMaxBackoffSeconds" 10 $of -}}
{{- if lt (include "gangsched.milliseconds" $last | float64) (include "gangsched.milliseconds" $first | float64) -}}
{{- fail (printf "configuration.podMaxBackoffSeconds: expected at least podInitialBackoffSeconds, which is %v, got %v" $first $last) -}}
{{- end -}}
{{- end -}}

{{- /* The plugins that have arguments; no other can be enabled by the values. */ -}}
{{- define "gangsched.checks.plugins" -}}
{{- $known := list "Backfill" "Coscheduling" "DefaultPreemption" "NodeResourcesFit" "PodTopologySpread" "VolumeBinding" -}}
{{- $seen := dict -}}
{{- range $place, $entry := .Values.pluginConfig -}}
{{- if not (has $entry.name $known) -}}
{{- fail (printf "pluginConfig[%d].name: expected one of %s, got %q" $place (join ", " $known) $entry.name) -}}
{{- end -}}
{{- if hasKey $seen $entry.name -}}
{{- fail (printf "pluginConfig[%d].name: expected a plugin that no other entry names, got %q" $place $entry.name) -}}
{{- end -}}
{{- $_ := set $seen $entry.name true -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.checks.quotas" -}}
{{- $seen := dict -}}
{{- range $place, $quota := .Values.configuration.quotas -}}
{{- $at := printf "configuration.quotas[%d]" $place -}}
{{- if hasKey $seen $quota.name -}}
{{- fail (printf "%s.name: expected a name that no other quota has, got %q" $at $quota.name) -}}
{{- end -}}
{{- $_ := set $seen $quota.name true -}}
{{- range $name, $amount := $quota.hard -}}
{{- if or (hasPrefix "requests." $name) (hasPrefix "limits." $name) (not (or (contains "/" $name) (hasPrefix "hugepages-" $name) (has $name (list "cpu" "memory" "ephemeral-storage" "pods")))) -}}
{{- fail (printf "%s.hard: expected a resource that pods can request, such as cpu, memory or nvidia.com/gpu, got %q" $at $name) -}}
{{- end -}}
{{- if and (not (kindIs "string" $amount)) (ne (floor $amount) (float64 $amount)) -}}
{{- fail (printf "%s.hard.%s: expected a whole number, or a text such as 500m, got %v" $at $name $amount) -}}
{{- end -}}
{{- include "gangsched.checks.quantity" (dict "at" (printf "%s.hard.%s" $at $name) "value" $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.checks.quantity" -}}
{{- if not (regexMatch "^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[eE][+-]?[0-9]{1,4}|[numkMGTPE])?$" (toString .value)) -}}
{{- fail (printf "%s: expected a Kubernetes quantity >= 0, such as 500m, 4Gi or 1e3, got %v" .at (kindIs "string" .value | ternary (quote .value) (toString .value))) -}}
{{- end -}}
{{- end -}}
