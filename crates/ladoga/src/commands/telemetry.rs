//! Traces, as a node has them: recorded if the settings name a collector.

use std::sync::Arc;

use ladoga_env::Env;
use ladoga_node::Traces;

use super::Failure;
use crate::settings::{OtlpSettings, Settings};

/// What records traces, and what exports them.
#[derive(Default)]
pub(super) struct Telemetry {
    /// For the event loops.
    pub(super) traces: Option<Arc<Traces>>,
    #[cfg(feature = "otel")]
    exporter: Option<ladoga_otel::Exporter>,
}

impl Telemetry {
    /// Begins, if the settings say so.
    pub(super) fn start(env: &Env, settings: &Settings) -> Result<Telemetry, Failure> {
        match &settings.otlp {
            None => Ok(Telemetry::default()),
            Some(otlp) => Telemetry::export(env, settings, otlp),
        }
    }

    #[cfg(feature = "otel")]
    fn export(env: &Env, settings: &Settings, otlp: &OtlpSettings) -> Result<Telemetry, Failure> {
        let (traces, queue) = Traces::new(otlp.sampling, Arc::clone(&env.clock), Arc::clone(&env.rng));
        let traces = Arc::new(traces);
        let OtlpSettings { url, service, headers, timeout_ms, authorities, identity, .. } = otlp;
        let export = ladoga_otel::ExportSettings {
            url: url.clone(),
            service: service.clone(),
            instance: settings.own_url(),
            headers: headers.clone(),
            timeout: std::time::Duration::from_millis(*timeout_ms),
            tls: ladoga_otel::ExportTls { authorities: authorities.clone(), identity: identity.clone() },
        };
        let exporter = ladoga_otel::Exporter::start(export, &traces, queue).map_err(super::life::failed)?;
        Ok(Telemetry { traces: Some(traces), exporter: Some(exporter) })
    }

    #[cfg(not(feature = "otel"))]
    fn export(_: &Env, _: &Settings, _: &OtlpSettings) -> Result<Telemetry, Failure> {
        unreachable!("without the feature, these settings are refused")
    }

    /// Everything that records has ended: the last spans are exported, if that does not take long.
    pub(super) fn stop(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.stop();
        }
        #[cfg(not(feature = "otel"))]
        drop(self);
    }
}
