{{- define "gangsched.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gangsched.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "gangsched.name" .) -}}
{{- end -}}

{{- define "gangsched.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gangsched.labels" -}}
{{ include "gangsched.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The configuration: what the values say, over what the chart sets. */ -}}
{{- define "gangsched.configuration" -}}
{{- include "gangsched.checks" . -}}
{{- $profile := dict "schedulerName" .Values.schedulerName -}}
{{- if .Values.pluginConfig -}}
{{- $_ := set $profile "pluginConfig" .Values.pluginConfig -}}
{{- end -}}
{{- $election := dict "leaderElect" true "resourceName" (include "gangsched.name" .) "resourceNamespace" .Release.Namespace -}}
{{- $found := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $election "profiles" (list $profile) -}}
{{- toYaml (mergeOverwrite $found (deepCopy .Values.configuration)) -}}
{{- end -}}

{{- /* The Lease that the role allows is the one that the configuration names. */ -}}
{{- define "gangsched.lease" -}}
{{- $given := .Values.configuration.leaderElection | default dict -}}
{{- $given.resourceName | default (include "gangsched.name" .) -}}
{{- end -}}
{{- define "gangsched.leaseNamespace" -}}
{{- $given := .Values.configuration.leaderElection | default dict -}}
{{- $given.resourceNamespace | default .Release.Namespace -}}
{{- end -}}

{{- /* A duration of the configuration in milliseconds: a number of seconds, or a text such as 1m30s. */ -}}
{{- define "gangsched.milliseconds" -}}
{{- if kindIs "string" . -}}
{{- $hours := regexFind "[0-9]+h" . | trimSuffix "h" | float64 -}}
{{- $minutes := regexFind "[0-9]+m([0-9]|$)" . | regexFind "^[0-9]+" | float64 -}}
{{- $seconds := regexFind "[0-9.]+s" . | trimSuffix "s" | float64 -}}
{{- $milliseconds := regexFind "[0-9]+ms" . | trimSuffix "ms" | float64 -}}
{{- addf (mulf $hours 3600000) (mulf $minutes 60000) (mulf $seconds 1000) $milliseconds -}}
{{- else -}}
{{- mulf (float64 .) 1000 -}}
{{- end -}}
{{- end -}}

{{- /* The same in whole seconds, rounded up. */ -}}
{{- define "gangsched.seconds" -}}
{{- divf (include "gangsched.milliseconds" . | float64) 1000 | ceil | int -}}
{{- end -}}

{{- define "gangsched.grace" -}}
{{- $seconds := dig "drainSeconds" 20 .Values.configuration | include "gangsched.seconds" | int -}}
{{- .Values.terminationGracePeriodSeconds | default (add $seconds 20) | int -}}
{{- end -}}

{{- /* Where "Alert on Kubernetes" says what to do about an alert. */ -}}
{{- define "gangsched.runbook" -}}
{{- $page := index . 0 -}}
{{- if $page -}}
runbook_url: {{ printf "%s#%s" (trimSuffix "#" $page) (lower (index . 1)) | quote }}
{{- else -}}
runbook: {{ printf "docs/how-to/alert-on-kubernetes.md#%s" (lower (index . 1)) | quote }}
{{- end -}}
{{- end -}}
