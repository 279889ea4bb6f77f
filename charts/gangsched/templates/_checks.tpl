{{- /* What a schema cannot say of the values: each fault has the name of the value, and the value; all are named. */ -}}

{{- define "gangsched.checks" -}}
{{- with include "gangsched.faults" . -}}
{{- fail (trimSuffix "\n" . | printf "\n%s") -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.faults" -}}
{{- if and (gt (int .Values.replicas) 1) (eq (toString (dig "leaderElection" "leaderElect" true .Values.configuration)) "false") -}}
{{- print "replicas: more than 1 needs leader election, and configuration.leaderElection.leaderElect is false\n" -}}
{{- end -}}
{{- if and .Values.serving.insecure .Values.serving.secretName -}}
{{- print "serving.insecure: expected false with serving.secretName\n" -}}
{{- end -}}
{{- include "gangsched.faults.grace" . -}}
{{- include "gangsched.faults.durations" . -}}
{{- include "gangsched.faults.plugins" . -}}
{{- include "gangsched.faults.quotas" . -}}
{{- range $kind, $amounts := .Values.resources -}}
{{- if has $kind (list "requests" "limits") -}}
{{- range $name, $amount := $amounts -}}
{{- include "gangsched.faults.quantity" (dict "at" (printf "resources.%s.%s" $kind $name) "value" $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The process ends within a second after drainSeconds; the kubelet kills it after the grace period. */ -}}
{{- define "gangsched.faults.grace" -}}
{{- $drain := dig "drainSeconds" 20 .Values.configuration -}}
{{- $seconds := include "gangsched.seconds" $drain | int -}}
{{- $grace := include "gangsched.grace" . | int -}}
{{- if lt $grace (add $seconds 5 | int) -}}
{{- printf "terminationGracePeriodSeconds: expected at least 5 more than configuration.drainSeconds, which is %v, got %d\n" $drain $grace -}}
{{- end -}}
{{- end -}}

{{- /* A leader that is late must know it before another one takes over. */ -}}
{{- define "gangsched.faults.durations" -}}
{{- $of := .Values.configuration -}}
{{- $election := $of.leaderElection | default dict -}}
{{- $less := list
  (list "configuration.leaderElection.renewDeadline" $election.renewDeadline "10s" "leaseDuration" $election.leaseDuration "15s")
  (list "configuration.leaderElection.retryPeriod" $election.retryPeriod "2s" "renewDeadline" $election.renewDeadline "10s") -}}
{{- range $less -}}
{{- $value := eq (toString (index . 1)) "<nil>" | ternary (index . 2) (index . 1) -}}
{{- $limit := eq (toString (index . 4)) "<nil>" | ternary (index . 5) (index . 4) -}}
{{- if ge (include "gangsched.milliseconds" $value | float64) (include "gangsched.milliseconds" $limit | float64) -}}
{{- printf "%s: expected less than %s, which is %v, got %v\n" (index . 0) (index . 3) $limit $value -}}
{{- end -}}
{{- end -}}
{{- $first := dig "podInitialBackoffSeconds" 1 $of -}}
{{- $last := dig "podMaxBackoffSeconds" 10 $of -}}
{{- if lt (include "gangsched.milliseconds" $last | float64) (include "gangsched.milliseconds" $first | float64) -}}
{{- printf "configuration.podMaxBackoffSeconds: expected at least podInitialBackoffSeconds, which is %v, got %v\n" $first $last -}}
{{- end -}}
{{- end -}}

{{- /* The plugins that have arguments; no other can be enabled by the values. */ -}}
{{- define "gangsched.faults.plugins" -}}
{{- $known := list "Backfill" "Coscheduling" "DefaultPreemption" "NodeResourcesFit" "PodTopologySpread" "VolumeBinding" -}}
{{- $seen := dict -}}
{{- range $place, $entry := .Values.pluginConfig -}}
{{- if not (has $entry.name $known) -}}
{{- printf "pluginConfig[%d].name: expected one of %s, got %q\n" $place (join ", " $known) $entry.name -}}
{{- end -}}
{{- if hasKey $seen $entry.name -}}
{{- printf "pluginConfig[%d].name: expected a plugin that no other entry names, got %q\n" $place $entry.name -}}
{{- end -}}
{{- $_ := set $seen $entry.name true -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.faults.quotas" -}}
{{- $seen := dict -}}
{{- range $place, $quota := .Values.configuration.quotas -}}
{{- $at := printf "configuration.quotas[%d]" $place -}}
{{- if hasKey $seen $quota.name -}}
{{- printf "%s.name: expected a name that no other quota has, got %q\n" $at $quota.name -}}
{{- end -}}
{{- $_ := set $seen $quota.name true -}}
{{- range $name, $amount := $quota.hard -}}
{{- if or (hasPrefix "requests." $name) (hasPrefix "limits." $name) (not (or (contains "/" $name) (hasPrefix "hugepages-" $name) (has $name (list "cpu" "memory" "ephemeral-storage" "pods")))) -}}
{{- printf "%s.hard: expected a resource that pods can request, such as cpu, memory or nvidia.com/gpu, got %q\n" $at $name -}}
{{- end -}}
{{- if and (not (kindIs "string" $amount)) (ne (floor $amount) (float64 $amount)) -}}
{{- printf "%s.hard.%s: expected a whole number, or a text such as 500m, got %v\n" $at $name $amount -}}
{{- end -}}
{{- include "gangsched.faults.quantity" (dict "at" (printf "%s.hard.%s" $at $name) "value" $amount) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.faults.quantity" -}}
{{- if not (regexMatch "^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[eE][+-]?[0-9]{1,4}|[numkMGTPE])?$" (toString .value)) -}}
{{- printf "%s: expected a Kubernetes quantity >= 0, such as 500m, 4Gi or 1e3, got %v\n" .at (kindIs "string" .value | ternary (quote .value) (toString .value)) -}}
{{- end -}}
{{- end -}}
