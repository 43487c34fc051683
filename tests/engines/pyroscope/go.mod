// Pyroscope 1.21.1 with a newer dskit than it names, which engines.py adapts it to (src).
module engine

go 1.25.7

require (
	github.com/grafana/dskit v0.0.0-20260804161922-ca94e9ff1c22
	github.com/grafana/pyroscope v1.21.1
	github.com/grafana/pyroscope/api v1.5.0
)

replace (
	github.com/grafana/pyroscope => ./src
	github.com/hashicorp/memberlist => github.com/grafana/memberlist v0.3.1-0.20260515134459-1798cf41aca7
	gopkg.in/yaml.v3 => github.com/colega/go-yaml-yaml v0.0.0-20220720105220-255a8d16d094
)
