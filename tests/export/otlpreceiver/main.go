// The Collector's own OTLP receiver, which writes what it receives to standard output: a line of JSON for each
// sample, data point, span and log record. The first line has the addresses of HTTP and gRPC, at the host that is its
// argument.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

type line map[string]any

var (
	mutex  sync.Mutex
	output = json.NewEncoder(os.Stdout)
)

func write(one line) {
	mutex.Lock()
	defer mutex.Unlock()
	if err := output.Encode(one); err != nil {
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ofID(id []byte) string {
	for _, b := range id {
		if b != 0 {
			return hex.EncodeToString(id)
		}
	}
	return ""
}

func profiles(_ context.Context, all pprofile.Profiles) error {
	dictionary := all.Dictionary()
	text := dictionary.StringTable().At
	for _, resource := range all.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			for _, profile := range scope.Profiles().All() {
				for _, sample := range profile.Samples().All() {
					attributes, err := pprofile.FromAttributeIndices(dictionary.AttributeTable(), sample, dictionary)
					if err != nil {
						return err
					}
					link := dictionary.LinkTable().At(int(sample.LinkIndex()))
					trace, span := link.TraceID(), link.SpanID()
					var stack []string
					for _, location := range dictionary.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
						for _, its := range dictionary.LocationTable().At(int(location)).Lines().All() {
							function := dictionary.FunctionTable().At(int(its.FunctionIndex()))
							stack = append(stack, text(int(function.NameStrindex())))
						}
					}
					write(line{"signal": "profiles", "resource": resource.Resource().Attributes().AsRaw(),
						"type": text(int(profile.SampleType().TypeStrindex())), "period": profile.Period(),
						"values": sample.Values().AsRaw(), "times": sample.TimestampsUnixNano().AsRaw(),
						"attributes": attributes.AsRaw(), "trace_id": ofID(trace[:]), "span_id": ofID(span[:]), "stack": stack})
				}
			}
		}
	}
	return nil
}

func exemplars(all pmetric.ExemplarSlice) []string {
	traces := []string{}
	for _, one := range all.All() {
		id := one.TraceID()
		traces = append(traces, ofID(id[:]))
	}
	return traces
}

func metrics(_ context.Context, all pmetric.Metrics) error {
	numbers := func(name string, resource pcommon.Resource, points pmetric.NumberDataPointSlice) {
		for _, point := range points.All() {
			value := point.DoubleValue()
			if point.ValueType() == pmetric.NumberDataPointValueTypeInt {
				value = float64(point.IntValue())
			}
			write(line{"signal": "metrics", "name": name, "resource": resource.Attributes().AsRaw(),
				"attributes": point.Attributes().AsRaw(), "value": value, "start": point.StartTimestamp(),
				"exemplars": exemplars(point.Exemplars())})
		}
	}
	for _, resource := range all.ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				switch metric.Type() {
				case pmetric.MetricTypeSum:
					numbers(metric.Name(), resource.Resource(), metric.Sum().DataPoints())
				case pmetric.MetricTypeGauge:
					numbers(metric.Name(), resource.Resource(), metric.Gauge().DataPoints())
				case pmetric.MetricTypeExponentialHistogram:
					for _, point := range metric.ExponentialHistogram().DataPoints().All() {
						inside := point.ZeroCount()
						for _, buckets := range []pmetric.ExponentialHistogramDataPointBuckets{point.Positive(), point.Negative()} {
							for _, count := range buckets.BucketCounts().All() {
								inside += count
							}
						}
						write(line{"signal": "metrics", "name": metric.Name(), "resource": resource.Resource().Attributes().AsRaw(),
							"attributes": point.Attributes().AsRaw(), "value": point.Sum(), "count": point.Count(),
							"inside": inside, "start": point.StartTimestamp(), "exemplars": exemplars(point.Exemplars())})
					}
				default:
					return fmt.Errorf("%s: unexpected %s", metric.Name(), metric.Type())
				}
			}
		}
	}
	return nil
}

func traces(_ context.Context, all ptrace.Traces) error {
	for _, resource := range all.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				trace, id, parent := span.TraceID(), span.SpanID(), span.ParentSpanID()
				write(line{"signal": "traces", "name": span.Name(), "resource": resource.Resource().Attributes().AsRaw(),
					"attributes": span.Attributes().AsRaw(), "trace_id": ofID(trace[:]), "span_id": ofID(id[:]),
					"parent": ofID(parent[:]), "start": span.StartTimestamp(), "end": span.EndTimestamp()})
			}
		}
	}
	return nil
}

func logs(_ context.Context, all plog.Logs) error {
	for _, resource := range all.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				trace, span := record.TraceID(), record.SpanID()
				write(line{"signal": "logs", "body": record.Body().AsString(), "resource": resource.Resource().Attributes().AsRaw(),
					"attributes": record.Attributes().AsRaw(), "trace_id": ofID(trace[:]), "span_id": ofID(span[:])})
			}
		}
	}
	return nil
}

type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

func freePort() string {
	listener, err := net.Listen("tcp", os.Args[1]+":0")
	check(err)
	defer listener.Close()
	return listener.Addr().String()
}

func main() {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	http, grpc := freePort(), freePort()
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = http
	config.Protocols.GRPC.GetOrInsertDefault().NetAddr.Endpoint = grpc
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: component.TelemetrySettings{
		Logger: zap.NewNop(), TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(),
		Resource: pcommon.NewResource()}}
	ctx := context.Background()
	toProfiles, err := xconsumer.NewProfiles(profiles)
	check(err)
	toMetrics, err := consumer.NewMetrics(metrics)
	check(err)
	toTraces, err := consumer.NewTraces(traces)
	check(err)
	toLogs, err := consumer.NewLogs(logs)
	check(err)
	// All are one server.
	_, err = factory.CreateMetrics(ctx, settings, config, toMetrics)
	check(err)
	_, err = factory.CreateTraces(ctx, settings, config, toTraces)
	check(err)
	_, err = factory.CreateLogs(ctx, settings, config, toLogs)
	check(err)
	its, err := factory.(xreceiver.Factory).CreateProfiles(ctx, settings, config, toProfiles)
	check(err)
	check(its.Start(ctx, host{}))
	write(line{"http": http, "grpc": grpc})
	select {}
}
