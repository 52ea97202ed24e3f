{{- define "gosched.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gosched.headless" -}}
{{ include "gosched.fullname" . }}-headless
{{- end -}}

{{/* What others call a master: its pod's name, a dot, and this. */}}
{{- define "gosched.podDomain" -}}
{{ include "gosched.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* (root, component) */}}
{{- define "gosched.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* (root, component) */}}
{{- define "gosched.labels" -}}
{{ include "gosched.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (root, component) Of pods: without versions, so that another version of the chart alone restarts nothing. */}}
{{- define "gosched.podLabels" -}}
{{ include "gosched.selector" . }}
{{- with .root.Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (root, component, name, labels, annotations, namespace) The metadata of an object; `clusterWide` ones have no
     namespace. */}}
{{- define "gosched.metadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .clusterWide }}
  namespace: {{ default .root.Release.Namespace .namespace }}
  {{- end }}
  labels:
    {{- merge (include "gosched.labels" . | fromYaml) (default dict .labels) | toYaml | nindent 4 }}
  {{- with merge (default dict .annotations) .root.Values.extraAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* (root, image) */}}
{{- define "gosched.image" -}}
{{- $registry := trimSuffix "/" .root.Values.image.registry -}}
{{- $name := ternary .image.repository (printf "%s/%s" $registry .image.repository) (empty $registry) -}}
{{- if .image.digest -}}
{{ $name }}@{{ .image.digest }}
{{- else -}}
{{ $name }}:{{ default .root.Values.image.tag .image.tag }}
{{- end -}}
{{- end -}}

{{/* (root, component, account) */}}
{{- define "gosched.accountName" -}}
{{- if .account.create -}}
{{- default (printf "%s-%s" (include "gosched.fullname" .root) .component) .account.name -}}
{{- else -}}
{{- default "default" .account.name -}}
{{- end -}}
{{- end -}}

{{- define "gosched.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "gosched.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The masters as host:port of gRPC, one by one: an agent takes a master by its certificate, so behind one name it
     could meet another than the one that it has just looked at. */}}
{{- define "gosched.masterAddresses" -}}
{{- range $i := until (int .Values.master.replicaCount) }}
- {{ printf "%s-%d.%s:9090" (include "gosched.fullname" $) $i (include "gosched.podDomain" $) }}
{{- end }}
{{- end -}}

{{/* Pods of goschedctl, in pieces: the environment, the pod, the end of the container with its mounts, the volumes. */}}
{{- define "gosched.ctlEnv" -}}
- name: GOSCHED_ENDPOINTS
  value: {{ include "gosched.masterAddresses" . | fromYamlArray | join "," }}
{{- if ne .Values.tls.mode "off" }}
- {name: GOSCHED_TLS_CERT, value: /etc/gosched/client/tls.crt}
- {name: GOSCHED_TLS_KEY, value: /etc/gosched/client/tls.key}
- {name: GOSCHED_TLS_CA, value: /etc/gosched/client/ca.crt}
{{- end }}
{{- end -}}

{{- define "gosched.ctlPod" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.master.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.master.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "gosched.restrictedPod" . | nindent 2 }}
{{- end -}}

{{- define "gosched.ctlContainer" -}}
resources:
  {{- toYaml .Values.ctl.resources | nindent 2 }}
securityContext:
  {{- include "gosched.restrictedContainer" . | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if ne .Values.tls.mode "off" }}
  - {name: client, mountPath: /etc/gosched/client, readOnly: true}
  {{- end }}
{{- end -}}

{{- define "gosched.ctlVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- if ne .Values.tls.mode "off" }}
- name: client
  secret: {secretName: {{ include "gosched.clientSecret" . }}, defaultMode: 0440, optional: true}
{{- end }}
{{- end -}}

{{/* The key `archive` of both programs' settings; nothing without an archive. */}}
{{- define "gosched.archive" -}}
{{- $archive := .Values.archive -}}
{{- if $archive.url -}}
{{- $config := dict "url" $archive.url -}}
{{- range $key := list "endpoint" "region" "retention" -}}
{{- with get $archive $key }}{{ $_ := set $config $key . }}{{ end -}}
{{- end -}}
{{- if $archive.credentialsSecret -}}
{{- $_ := set $config "credentials_file" "/etc/gosched/archive/credentials" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{- define "gosched.archiveMounts" -}}
{{- if and .Values.archive.url .Values.archive.credentialsSecret }}
- {name: archive-credentials, mountPath: /etc/gosched/archive, readOnly: true}
{{- end }}
{{- if and .Values.archive.url .Values.archive.volume }}
- {name: archive, mountPath: {{ trimPrefix "file://" .Values.archive.url }}}
{{- end }}
{{- end -}}

{{- define "gosched.archiveVolumes" -}}
{{- if and .Values.archive.url .Values.archive.credentialsSecret }}
- name: archive-credentials
  secret: {secretName: {{ .Values.archive.credentialsSecret }}, defaultMode: 0440}
{{- end }}
{{- if and .Values.archive.url .Values.archive.volume }}
- name: archive
  {{- toYaml .Values.archive.volume | nindent 2 }}
{{- end }}
{{- end -}}
