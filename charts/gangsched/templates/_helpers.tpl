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
