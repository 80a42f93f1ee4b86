"""Report a run to OpenTelemetry as metrics and one span: pip install opentelemetry-sdk."""

import numpy as np
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

import ddol


def to_opentelemetry(meter):
    """A callback that keeps the gauges of a meter up to date."""
    gauges = {
        "examples": meter.create_gauge("ddol.examples", "{example}", "Examples learned from"),
        "error": meter.create_gauge("ddol.error", "1", "Wrong predictions, by example"),
        "mean_loss": meter.create_gauge("ddol.mean_loss", "1", "Loss of predictions, by example"),
        "bytes_sent": meter.create_gauge("ddol.bytes_sent", "By", "Bytes sent between agents"),
    }

    def tell(progress):
        for name, gauge in gauges.items():
            gauge.set(getattr(progress, name), {"job": "demo"})

    return tell


# Exporters that print; use OTLPMetricExporter and OTLPSpanExporter to send to a collector.
meters = MeterProvider([PeriodicExportingMetricReader(ConsoleMetricExporter(), 5_000)])
tracers = TracerProvider()
tracers.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 8))
y = X @ rng.standard_normal(8) > 0

with tracers.get_tracer("demo").start_as_current_span("ddol.run") as span:
    tell = to_opentelemetry(meters.get_meter("demo"))
    trace = ddol.run(ddol.adaptive("logistic"), (X, y), 4, on_progress=tell)
    span.set_attribute("ddol.agents", trace.agents)
    span.set_attribute("ddol.error", trace.error)

meters.shutdown()  # exports what is left
tracers.shutdown()
