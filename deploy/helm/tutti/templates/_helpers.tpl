{{- define "tutti.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "tutti.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "tutti.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tutti.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tutti.selector" -}}
app.kubernetes.io/name: {{ include "tutti.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tutti.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tutti.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tutti.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* What every pod has: no root, no token of the API, a folder for temporary files. */}}
{{- define "tutti.pod" -}}
enableServiceLinks: false   # TUTTI_* variables of services are none of the program's options
automountServiceAccountToken: false
{{- with .Values.serviceAccount }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "tutti.container" -}}
image: {{ include "tutti.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [tutti]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tutti.broker" -}}
- --broker-backend={{ .Values.workers.broker.backend }}
- --broker-url={{ required "workers.broker.url is needed with workers.enabled" .Values.workers.broker.url }}
- --broker-name={{ .Values.workers.broker.name }}
{{- if .Values.workers.broker.passwordSecret }}
- --broker-password-file=/etc/tutti-broker/password
{{- end }}
{{- if .Values.workers.broker.plain }}
- --broker-plain=on
{{- end }}
{{- end -}}

{{- define "tutti.modelsVolume" -}}
- name: models
{{- if or .Values.models.existingClaim .Values.models.create }}
  persistentVolumeClaim: {claimName: {{ default (printf "%s-models" (include "tutti.fullname" .)) .Values.models.existingClaim }}}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end -}}

{{/* A request of as many processors as threads, and no limit of them: a limit would throttle the threads. */}}
{{- define "tutti.cores" -}}
requests: {cpu: {{ .Values.threads | quote }}, memory: {{ .Values.memory }}}
limits: {memory: {{ .Values.memory }}}
{{- end -}}
