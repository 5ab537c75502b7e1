use std::path::PathBuf;

use clap::Args;

/// Where traces go, as it was typed: `settings` says what it means.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Traces (in a build with the cargo feature otel)")]
pub(crate) struct OtlpFlags {
    /// Collector of OpenTelemetry that spans are sent to, by OTLP over HTTP, such as `http://127.0.0.1:4318`
    /// [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, or none]
    #[arg(id = "otlp", long = "otlp", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Share of the requests without a `traceparent` that are recorded, from 0 to 1
    /// [default: `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, or 0.01]
    #[arg(id = "otlp_sample", long = "otlp-sample", value_name = "RATIO", allow_hyphen_values = true)]
    pub(crate) sample: Option<String>,
    /// Name of the service in traces [default: `OTEL_SERVICE_NAME`, or ladoga]
    #[arg(id = "otlp_service", long = "otlp-service", value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// File with header fields for the collector, such as `authorization: Bearer ...`, one a line [default: none]
    #[arg(id = "otlp_headers_file", long = "otlp-headers-file", value_name = "FILE")]
    pub(crate) headers_file: Option<PathBuf>,
    /// Authorities that the collector's certificate may come from, as PEM
    /// [default: `OTEL_EXPORTER_OTLP_CERTIFICATE`, or those of the system]
    #[arg(id = "otlp_ca", long = "otlp-ca", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate that is shown to the collector, as PEM [default: `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, or none]
    #[arg(id = "otlp_cert", long = "otlp-cert", value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key, as PEM [default: `OTEL_EXPORTER_OTLP_CLIENT_KEY`, or none]
    #[arg(id = "otlp_key", long = "otlp-key", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}
