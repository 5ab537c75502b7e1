use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use ladoga_runtime::{Span, SpanQueue, Traces};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;

use crate::client::{BlockingClient, ExportTls};
use crate::convert::exported;

/// Spans that are sent at once, and how long the first of them waits for the others.
const BATCH_SPANS_MAX: usize = 512;
const BATCH_WAIT: Duration = Duration::from_millis(500);
/// How long the end of a node waits for spans that are not exported yet.
const FLUSH_MAX: Duration = Duration::from_secs(3);

/// Where spans go, and as whose.
#[derive(Debug)]
pub struct ExportSettings {
    /// The whole URL that batches are posted to.
    pub url: String,
    /// The name of the service.
    pub service: String,
    /// Which node it is.
    pub instance: String,
    /// Fields to authenticate by. They are in no log.
    pub headers: Vec<(String, String)>,
    /// How long a collector may take for a batch, with all attempts.
    pub timeout: Duration,
    /// What TLS goes by, if the URL has it.
    pub tls: ExportTls,
}

/// Why nothing is exported.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The crates of OpenTelemetry do not take it so.
    #[error("cannot export traces: {0}")]
    Settings(String),
    /// The system has no more threads.
    #[error("cannot start the thread otlp: {0}")]
    Thread(#[from] io::Error),
}

/// The thread that exports. It holds up nobody: what it does not take in time is dropped before it.
pub struct Exporter {
    traces: Arc<Traces>,
    ended: Receiver<()>,
}

impl Exporter {
    /// Exports what these traces record.
    pub fn start(
        settings: ExportSettings,
        traces: &Arc<Traces>,
        queue: SpanQueue,
    ) -> Result<Exporter, StartError> {
        let unusable = |error: &dyn std::fmt::Display| StartError::Settings(error.to_string());
        let tls = settings.url.starts_with("https:").then_some(&settings.tls);
        let client = BlockingClient::new(settings.timeout, headers(&settings)?, tls);
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.map_err(|error| unusable(&error))?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&settings.url)
            .with_timeout(settings.timeout)
            .build()
            .map_err(|error| unusable(&error))?;
        exporter.set_resource(&resource(&settings));
        let (ends, ended) = sync_channel(0);
        let work = Work { exporter, traces: Arc::clone(traces), url: settings.url, is_failing: false };
        // It is not supervised: a node does well without it.
        Builder::new().name("otlp".to_owned()).spawn(move || {
            work.run(&queue);
            drop(ends);
        })?;
        Ok(Exporter { traces: Arc::clone(traces), ended })
    }

    /// Exports what is there, if that does not take too long. Everything that records has ended.
    pub fn stop(self) {
        self.traces.close();
        // Ready once the thread has let go of its end.
        let is_late =
            matches!(self.ended.recv_timeout(FLUSH_MAX), Err(std::sync::mpsc::RecvTimeoutError::Timeout));
        if is_late {
            tracing::warn!("the last spans were not exported: the collector took longer than {FLUSH_MAX:?}");
        }
    }
}

/// The fields of all requests. What is wrong is told without what it is: they are secrets.
fn headers(settings: &ExportSettings) -> Result<HeaderMap, StartError> {
    let field = |(name, value): &(String, String)| {
        let name = name.parse::<HeaderName>().ok()?;
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let fields = settings.headers.iter().map(field).collect::<Option<HeaderMap>>();
    fields.ok_or_else(|| StartError::Settings("a header field for the collector is none".to_owned()))
}

/// What all spans of this process have in common. `OTEL_RESOURCE_ATTRIBUTES` adds to it.
fn resource(settings: &ExportSettings) -> Resource {
    Resource::builder()
        .with_service_name(settings.service.clone())
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", settings.instance.clone()),
        ])
        .build()
}

/// What the thread does.
struct Work {
    exporter: SpanExporter,
    traces: Arc<Traces>,
    url: String,
    /// Whether the last batch was not taken: the log has each change of that.
    is_failing: bool,
}

impl Work {
    fn run(mut self, queue: &SpanQueue) {
        let runtime = match tokio::runtime::Builder::new_current_thread().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::warn!(%error, "spans are not exported"),
        };
        let scope = InstrumentationScope::builder("ladoga").with_version(env!("CARGO_PKG_VERSION")).build();
        while let Some(batch) = queue.next_batch(BATCH_SPANS_MAX, BATCH_WAIT) {
            runtime.block_on(self.export(batch, &scope));
        }
    }

    async fn export(&mut self, batch: Vec<Span>, scope: &InstrumentationScope) {
        let count = batch.len() as u64;
        let batch = batch.into_iter().map(|span| exported(span, scope)).collect();
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.traces.figures.exported(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::warn!(url = self.url, "spans are exported again");
                }
            }
            Err(error) => {
                self.traces.figures.failed(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(url = self.url, %error, "spans cannot be exported");
                }
            }
        }
    }
}
