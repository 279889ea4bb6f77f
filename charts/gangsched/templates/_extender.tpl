{{- /* What differs in a pod of the extender from one of the scheduler. */ -}}

{{- define "gangsched.extender.arguments" -}}
{{- $tls := .Values.extender.tls -}}
- extender
- --config=/etc/gangsched/config.yaml
- --bind-address=0.0.0.0
- --port=8888
- --hold-timeout={{ .Values.extender.holdTimeout }}
{{- range .Values.extender.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
- --label-pod=$(POD_NAMESPACE)/$(POD_NAME)
{{- if not $tls.enabled }}
- --insecure-bind-address
{{- else }}
- --tls-cert=/etc/gangsched-tls/tls.crt
- --tls-key=/etc/gangsched-tls/tls.key
{{- if $tls.verifyClients }}
- --client-ca=/etc/gangsched-tls/ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{- define "gangsched.extender.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end -}}

{{- define "gangsched.extender.volume" -}}
- name: tls
  secret: {secretName: {{ required "extender.tls.secretName: expected the name of a Secret with tls.crt, tls.key and ca.crt" .Values.extender.tls.secretName | quote }}}
{{- end -}}

{{- /* Whether a pod has the certificates. */ -}}
{{- define "gangsched.extender.isSecure" -}}
{{- if and (eq .Values.mode "extender") .Values.extender.tls.enabled }}true{{ end -}}
{{- end -}}
