{{- define "gosched.masterSecret" -}}
{{- if eq .Values.tls.mode "existing" -}}
{{- required "tls.mode is existing: name the secret of the masters' certificates with tls.existing.masterSecret" .Values.tls.existing.masterSecret -}}
{{- else -}}
{{ include "gosched.fullname" . }}-master-tls
{{- end -}}
{{- end -}}

{{- define "gosched.agentSecret" -}}
{{- if eq .Values.tls.mode "existing" -}}
{{- required "tls.mode is existing: name the secret of the agents' certificate with tls.existing.agentSecret, or set agent.enabled=false and kubeScheduler.enabled=false" .Values.tls.existing.agentSecret -}}
{{- else -}}
{{ include "gosched.fullname" . }}-agent-tls
{{- end -}}
{{- end -}}

{{- define "gosched.clientSecret" -}}
{{- if eq .Values.tls.mode "existing" -}}
{{- required "tls.mode is existing: name the secret of a client's certificate with tls.existing.clientSecret" .Values.tls.existing.clientSecret -}}
{{- else -}}
{{ include "gosched.fullname" . }}-client-tls
{{- end -}}
{{- end -}}

{{/* The volume with the certificates of all masters, as POD.crt and POD.key: the pods of a StatefulSet are all alike,
     and each takes its own. */}}
{{- define "gosched.masterTlsVolume" -}}
{{- if eq .Values.tls.mode "certManager" -}}
name: tls
projected:
  defaultMode: 0440
  sources:
    {{- range $i := until 7 }}
    {{- $pod := printf "%s-%d" (include "gosched.fullname" $) $i }}
    - secret:
        name: {{ $pod }}-tls
        items:
          - {key: tls.crt, path: {{ $pod }}.crt}
          - {key: tls.key, path: {{ $pod }}.key}
          {{- if eq $i 0 }}
          - {key: ca.crt, path: ca.crt}
          {{- end }}
    {{- end }}
{{- else -}}
name: tls
secret: {secretName: {{ include "gosched.masterSecret" . }}, defaultMode: 0440}
{{- end -}}
{{- end -}}

{{/* The DNS names of one master: (root, pod). */}}
{{- define "gosched.masterNames" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $domain := .root.Values.clusterDomain -}}
- {{ .pod }}.master.gosched.internal
- {{ .pod }}.{{ include "gosched.podDomain" .root }}
{{- range $service := list (include "gosched.fullname" .root) (include "gosched.headless" .root) }}
- {{ $service }}
- {{ $service }}.{{ $namespace }}
- {{ $service }}.{{ $namespace }}.svc
- {{ $service }}.{{ $namespace }}.svc.{{ $domain }}
{{- end }}
- localhost
{{- range .root.Values.tls.extraNames }}
{{- if not (regexMatch "^[0-9.]+$|:" .) }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gosched.masterIps" -}}
- "127.0.0.1"
{{- range .Values.tls.extraNames }}
{{- if regexMatch "^[0-9.]+$|:" . }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
