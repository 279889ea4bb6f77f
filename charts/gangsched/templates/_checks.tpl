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
{{- if not (kindIs "map" .Values.configuration.quotas) -}}
{{- include "gangsched.faults.quotas" . -}}
{{- end -}}
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
{{- $_ := set $seen $quota.name $quota -}}
{{- range $field := list "hard" "nominal" "borrow" "lend" -}}
{{- include "gangsched.faults.amounts" (dict "at" (printf "%s.%s" $at $field) "amounts" (get $quota $field | default dict)) -}}
{{- end -}}
{{- if and $quota.namespaces (not $quota.hard) (not (include "gangsched.isQueue" $quota)) -}}
{{- printf "%s.hard: expected at least one resource, as it has namespaces without nominal, parent or weight\n" $at -}}
{{- end -}}
{{- end -}}
{{- include "gangsched.faults.queues" (dict "quotas" .Values.configuration.quotas "named" $seen) -}}
{{- end -}}

{{- define "gangsched.isQueue" -}}
{{- if or (kindIs "map" .nominal) .parent (ne (toString (dig "weight" 1 .)) "1") -}}
true
{{- end -}}
{{- end -}}

{{- define "gangsched.faults.amounts" -}}
{{- $at := .at -}}
{{- range $name, $amount := .amounts -}}
{{- if or (hasPrefix "requests." $name) (hasPrefix "limits." $name) (not (or (contains "/" $name) (hasPrefix "hugepages-" $name) (has $name (list "cpu" "memory" "ephemeral-storage" "pods")))) -}}
{{- printf "%s: expected a resource that pods can request, such as cpu, memory or nvidia.com/gpu, got %q\n" $at $name -}}
{{- end -}}
{{- if and (not (kindIs "string" $amount)) (ne (floor $amount) (float64 $amount)) -}}
{{- printf "%s.%s: expected a whole number, or a text such as 500m, got %v\n" $at $name $amount -}}
{{- end -}}
{{- include "gangsched.faults.quantity" (dict "at" (printf "%s.%s" $at $name) "value" $amount) -}}
{{- end -}}
{{- end -}}

{{- /* Queues make up trees, and a namespace is in one queue. */ -}}
{{- define "gangsched.faults.queues" -}}
{{- $named := .named -}}
{{- $queues := dict -}}
{{- $quotas := .quotas -}}
{{- range $place, $quota := $quotas -}}
{{- $at := printf "configuration.quotas[%d]" $place -}}
{{- if include "gangsched.isQueue" $quota -}}
{{- range $namespace := uniq ($quota.namespaces | default list) -}}
{{- if hasKey $queues $namespace -}}
{{- printf "%s.namespaces: expected namespaces that no other queue has, got %q of %s\n" $at $namespace (get $queues $namespace) -}}
{{- end -}}
{{- $_ := set $queues $namespace $quota.name -}}
{{- end -}}
{{- end -}}
{{- if $quota.parent -}}
{{- if not (hasKey $named $quota.parent) -}}
{{- printf "%s.parent: expected the name of a quota, got %q\n" $at $quota.parent -}}
{{- else if (get $named $quota.parent).namespaces -}}
{{- printf "%s.parent: expected a quota without namespaces, got %q\n" $at $quota.parent -}}
{{- end -}}
{{- $walk := dict "name" $quota.parent -}}
{{- range $quotas -}}
{{- if eq $walk.name $quota.name -}}
{{- $_ := set $walk "closed" true -}}
{{- else -}}
{{- $_ := set $walk "name" (get (get $named $walk.name | default dict) "parent" | default "") -}}
{{- end -}}
{{- end -}}
{{- if $walk.closed -}}
{{- printf "%s.parent: expected no quota below it, got %q\n" $at $quota.parent -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.faults.quantity" -}}
{{- if not (regexMatch "^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[eE][+-]?[0-9]{1,4}|[numkMGTPE])?$" (toString .value)) -}}
{{- printf "%s: expected a Kubernetes quantity >= 0, such as 500m, 4Gi or 1e3, got %v\n" .at (kindIs "string" .value | ternary (quote .value) (toString .value)) -}}
{{- end -}}
{{- end -}}
