{{/* gosched.yaml but for `raft.peers`. Keys of `server` may stand at the top of master.config. */}}
{{- define "gosched.masterConfig" -}}
{{- $config := deepCopy .Values.master.config -}}
{{- $server := deepCopy (default dict $config.server) -}}
{{- range $key := list "algorithm" "schedule_period" -}}
{{- if hasKey $config $key -}}
{{- $_ := set $server $key (get $config $key) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $server "grpc_addr" ":9090" -}}
{{- $_ := set $server "http_addr" ":8080" -}}
{{- $hosts := default list $server.http_hosts -}}
{{- if .Values.master.ingress.enabled -}}
{{- $hosts = append $hosts (default "*" .Values.master.ingress.host) -}}
{{- end -}}
{{- if .Values.master.httpRoute.enabled -}}
{{- $hosts = concat $hosts (default (list "*") .Values.master.httpRoute.hostnames) -}}
{{- end -}}
{{- if $hosts -}}
{{- $_ := set $server "http_hosts" $hosts -}}
{{- end -}}
{{- $_ := set $config "server" $server -}}
{{- $raft := deepCopy (default dict $config.raft) -}}
{{- $_ := set $raft "enabled" true -}}
{{- $_ := set $raft "bind_addr" ":7000" -}}
{{- $_ := set $config "raft" $raft -}}
{{- if eq .Values.tls.mode "off" -}}
{{- $_ := set $config "insecure" true -}}
{{- end -}}
{{- /* Whoever may read the client's secret is an administrator. */ -}}
{{- if ne .Values.tls.mode "off" -}}
{{- $access := deepCopy (default dict $config.access) -}}
{{- $_ := set $access "admins" (default (list "helm") $access.admins) -}}
{{- $_ := set $config "access" $access -}}
{{- $_ := set $server "token_addr" ":9093" -}}
{{- end -}}
{{- if .Values.master.secretKeys -}}
{{- $_ := set $config "secrets" (dict "key_file" "/etc/gosched/secret-keys/keys") -}}
{{- end -}}
{{- with include "gosched.archive" . -}}
{{- $_ := set $config "archive" (fromYaml .) -}}
{{- end -}}
{{- if and .Values.tracing.endpoint (not (hasKey $config "tracing")) -}}
{{- $_ := set $config "tracing" .Values.tracing -}}
{{- end -}}
{{- omit $config "algorithm" "schedule_period" | toYaml -}}
{{- end -}}

{{- define "gosched.peers" -}}
{{- range $i := until (int .Values.master.replicaCount) }}
{{- $pod := printf "%s-%d" (include "gosched.fullname" $) $i }}
- {{ $pod }}={{ $pod }}.{{ include "gosched.podDomain" $ }}:7000
{{- end }}
{{- end -}}
