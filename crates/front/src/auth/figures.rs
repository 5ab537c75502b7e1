use ladoga_service::{Metric, MetricKind};
use ladoga_tls::NodeTls;

use super::audit::Audit;
use super::guard::Guard;
use super::live_token::Used;

impl Guard {
    /// What it counts. There are no more series than a file may have tokens.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let tokens = self.tokens();
        let used: Vec<(&str, Used)> = tokens.iter().map(|(id, token)| (&**id, token.used())).collect();
        let of_tokens = |name, help, count: fn(&Used) -> u64| {
            let series = used.iter().map(|(id, used)| ((*id).to_owned(), count(used) as f64));
            Metric::by_label(MetricKind::Counter, name, help, "token", series)
        };
        let (reloads, failed, unauthorized) = self.counts();
        vec![
            of_tokens("ladoga_token_requests_total", "Requests and commands of each token.", |used| {
                used.requests
            }),
            of_tokens("ladoga_token_bytes_total", "Bytes of values moved for each token.", |used| used.bytes),
            of_tokens(
                "ladoga_token_denied_total",
                "Requests and commands that a token did not allow.",
                |used| used.denied,
            ),
            of_tokens(
                "ladoga_token_throttled_total",
                "Requests and commands refused because a token had used what it may use in a second.",
                |used| used.throttled,
            ),
            Metric::counter(
                "ladoga_unauthorized_total",
                "Requests and commands without a token that counts.",
                unauthorized,
            ),
            Metric::counter(
                "ladoga_token_reloads_total",
                "How often the file of tokens was read anew.",
                reloads,
            ),
            Metric::counter(
                "ladoga_token_reloads_failed_total",
                "How often the file of tokens could not be used, so that the tokens before went on to count.",
                failed,
            ),
        ]
    }
}

/// What TLS counts.
pub(crate) fn tls_metrics(tls: &NodeTls) -> Vec<Metric> {
    let figures = &tls.figures;
    let failures = figures.failures().map(|(reason, count)| (reason.to_owned(), count as f64));
    let expiries = tls.expiries().into_iter().map(|(file, end_s)| (file.to_owned(), end_s as f64));
    let (reloads, failed) = figures.reloads();
    vec![
        Metric::counter(
            "ladoga_tls_handshakes_total",
            "TLS handshakes that were completed.",
            figures.handshakes(),
        ),
        Metric::by_label(
            MetricKind::Counter,
            "ladoga_tls_handshakes_failed_total",
            "TLS handshakes that came to nothing, by reason.",
            "reason",
            failures,
        ),
        Metric::by_label(
            MetricKind::Gauge,
            "ladoga_tls_certificate_expiry_seconds",
            "When the first certificate of each file expires, in seconds since 1970.",
            "file",
            expiries,
        ),
        Metric::counter(
            "ladoga_tls_peers_refused_total",
            "Connections that asked for the protocol of nodes without the certificate of one.",
            figures.peers_refused(),
        ),
        Metric::counter("ladoga_tls_reloads_total", "How often the files of TLS were read anew.", reloads),
        Metric::counter(
            "ladoga_tls_reloads_failed_total",
            "How often the files of TLS could not be used, so that those before went on to count.",
            failed,
        ),
    ]
}

impl Audit {
    /// What it counts.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let (written, dropped) = self.counts();
        vec![
            Metric::counter("ladoga_audit_lines_total", "Lines written to the audit log.", written),
            Metric::counter(
                "ladoga_audit_lines_dropped_total",
                "Lines of the audit log that were lost, because the disk was too slow or failed.",
                dropped,
            ),
        ]
    }
}
