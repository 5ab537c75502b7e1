{{- define "ladoga.labels" -}}
app.kubernetes.io/name: ladoga
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ladoga.name" -}}
{{- if contains "ladoga" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-ladoga" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* The URL of the node of this number: the same for clients inside and for the other nodes. */}}
{{- define "ladoga.url" -}}
{{- $name := include "ladoga.name" .root -}}
http://{{ $name }}-{{ .number }}.{{ $name }}-nodes.{{ .root.Release.Namespace }}.svc:{{ .root.Values.service.port }}
{{- end }}

{{- define "ladoga.cluster" -}}
{{- $root := . -}}
{{- $urls := list -}}
{{- range $number := until (int .Values.replicas) -}}
{{- $urls = append $urls (include "ladoga.url" (dict "root" $root "number" $number)) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end }}

{{/* A setting as a variable has it. Numbers of a file of values are floats here, and from a million on they would be printed as 1e+06. */}}
{{- define "ladoga.setting" -}}
{{- if kindIs "slice" . }}
{{- $parts := list }}
{{- range . }}
{{- $parts = append $parts (include "ladoga.setting" .) }}
{{- end }}
{{- join "," $parts }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) }}
{{- int64 . }}
{{- else }}
{{- toString . }}
{{- end }}
{{- end }}
