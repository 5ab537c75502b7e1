//! Where traces go. A build without the cargo feature otel refuses each of these settings.

use std::fmt;
use std::path::Path;

use ladoga_http1::Uri;
use ladoga_node::Sampling;
use ladoga_tls::{certificates, private_key, read_bounded};

use super::sources::{Sources, TRACES_ENDPOINT};
use super::{SettingError, parse};

/// Whether this binary can export traces.
const IS_BUILT: bool = cfg!(feature = "otel");
/// The share of the requests without a `traceparent` that are recorded if nothing is said.
const SAMPLE: f64 = 0.01;
/// How long a collector may take for a batch if nothing is said.
const TIMEOUT_MS: u64 = 10_000;
const SERVICE: &str = "ladoga";
/// Where OTLP has traces, below the URL of a collector.
const PATH: &str = "/v1/traces";
/// The longest file of header fields.
const HEADERS_BYTES_MAX: u64 = 16 << 10;

/// What beside the URL is only for traces.
const ITS_OWN: [&str; 7] = [
    "otlp_sample",
    "otlp_service",
    "otlp_headers_file",
    "otlp_ca",
    "otlp_cert",
    "otlp_key",
    "otlp_timeout_ms",
];

/// Where traces go.
#[derive(PartialEq)]
pub(crate) struct OtlpSettings {
    /// The whole URL that they are posted to.
    pub(crate) url: String,
    pub(crate) sampling: Sampling,
    /// The name of the service.
    pub(crate) service: String,
    /// Fields to authenticate by.
    pub(crate) headers: Vec<(String, String)>,
    /// How long a collector may take for a batch.
    pub(crate) timeout_ms: u64,
    /// The authorities of the collector, as PEM; none if they are those of the system.
    pub(crate) authorities: Option<Vec<u8>>,
    /// The certificate that is shown to it, and its key, as PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Without the values of the fields, which are secrets.
impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtlpSettings { url, sampling, service, .. } = self;
        f.debug_struct("OtlpSettings")
            .field("url", url)
            .field("sampling", sampling)
            .field("service", service)
            .finish_non_exhaustive()
    }
}

/// Reads them; none if traces are not exported.
pub(super) fn otlp(sources: &Sources) -> Result<Option<OtlpSettings>, SettingError> {
    let of_this_build = |name: &str| sources.get(name, |_| is_of(IS_BUILT)).map(drop);
    ["otlp"].iter().chain(&ITS_OWN).try_for_each(|name| of_this_build(name))?;
    let is_whole = sources.name("otlp") == Some(TRACES_ENDPOINT);
    let Some(url) = sources.get("otlp", |text| url(text, is_whole))? else {
        for name in ITS_OWN {
            sources.get(name, |_| Err::<(), _>("--otlp URL with it".to_owned()))?;
        }
        return Ok(None);
    };
    let share = sources.get("otlp_sampler_arg", sample)?;
    let sampler = sources.get("otlp_sampler", |text| sampler(text, share))?;
    let said = sources.get("otlp_sample", sample)?.map(|share| Sampling { share, follows: true });
    let (certificate, key) =
        (sources.get("otlp_cert", certificate_file)?, sources.get("otlp_key", key_file)?);
    if let Some((alone, other)) = match (&certificate, &key) {
        (Some(_), None) => Some(("otlp_cert", "the private key of it with it, --otlp-key FILE")),
        (None, Some(_)) => Some(("otlp_key", "the certificate of it with it, --otlp-cert FILE")),
        _ => None,
    } {
        sources.get(alone, |_| Err::<(), _>(other.to_owned()))?;
    }
    Ok(Some(OtlpSettings {
        url,
        sampling: said.or(sampler).unwrap_or(Sampling { share: SAMPLE, follows: true }),
        timeout_ms: sources.get("otlp_timeout_ms", parse::timeout_ms)?.unwrap_or(TIMEOUT_MS),
        authorities: sources.get("otlp_ca", certificate_file)?,
        identity: certificate.zip(key),
        service: sources.get("otlp_service", service)?.unwrap_or_else(|| SERVICE.to_owned()),
        headers: sources.get("otlp_headers_file", headers)?.unwrap_or_default(),
    }))
}

/// Checks the form of a setting of which this file knows.
pub(super) fn check_form(name: &str, text: &str) -> Result<(), String> {
    is_of(IS_BUILT)?;
    match name {
        "otlp" => url(text, false).map(drop),
        "otlp_sample" => sample(text).map(drop),
        "otlp_service" => service(text).map(drop),
        "otlp_timeout_ms" => parse::timeout_ms(text).map(drop),
        _ => super::access::file(text).map(drop),
    }
}

fn is_of(is_built: bool) -> Result<(), String> {
    if is_built {
        Ok(())
    } else {
        Err("none: this binary was built without the cargo feature otel".to_owned())
    }
}

/// The URL of a collector, or the whole one for traces. It has no secrets in it.
fn url(text: &str, is_whole: bool) -> Result<String, String> {
    let expected = || {
        "the URL of a collector, such as http://127.0.0.1:4318, without a name and a password: these are for --otlp-headers-file"
            .to_owned()
    };
    let uri: Uri = text.parse().map_err(|_| expected())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri
        .authority()
        .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    if !is_http || !has_host || uri.query().is_some() || text.contains('#') {
        return Err(expected());
    }
    if is_whole {
        return Ok(text.to_owned());
    }
    let base = text.trim_end_matches('/');
    Ok(if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") })
}

fn sample(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a number from 0 to 1, such as 0.01".to_owned())
}

/// A sampler of OpenTelemetry, with its argument.
fn sampler(text: &str, share: Option<f64>) -> Result<Sampling, String> {
    let (of_root, follows) = match text.strip_prefix("parentbased_") {
        Some(of_root) => (of_root, true),
        None => (text, false),
    };
    let share = match of_root {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => share.unwrap_or(1.0),
        _ => {
            return Err("always_on, always_off, traceidratio, or one of them behind parentbased_; --otlp-sample comes before it"
                .to_owned());
        }
    };
    Ok(Sampling { share, follows })
}

fn pem<T, E: fmt::Display>(path: &str, read: impl Fn(&[u8]) -> Result<T, E>) -> Result<Vec<u8>, String> {
    let content =
        read_bounded(Path::new(path)).map_err(|error| format!("a file that can be read: {error}"))?;
    read(&content).map(drop).map_err(|error| format!("a PEM file: {error}"))?;
    Ok(content)
}

fn certificate_file(path: &str) -> Result<Vec<u8>, String> {
    pem(path, certificates)
}

fn key_file(path: &str) -> Result<Vec<u8>, String> {
    pem(path, private_key)
}

fn service(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a name that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The fields of a file, one a line. What is wrong is told by the number of its line: the line is a secret.
fn headers(path: &str) -> Result<Vec<(String, String)>, String> {
    let unread = |error: &dyn fmt::Display| format!("a file that can be read: {error}");
    let length = std::fs::metadata(path).map_err(|error| unread(&error))?.len();
    if length > HEADERS_BYTES_MAX {
        return Err(format!("a file of at most {HEADERS_BYTES_MAX} bytes"));
    }
    fields(&std::fs::read_to_string(path).map_err(|error| unread(&error))?)
}

fn fields(text: &str) -> Result<Vec<(String, String)>, String> {
    let is_line = |(_, line): &(usize, &str)| !line.trim().is_empty() && !line.starts_with('#');
    let field = |(number, line): (usize, &str)| {
        let field = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let is_right = |(name, value): &(&str, &str)| {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_of_name);
            is_name && !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        let (name, value) = field.filter(is_right).ok_or_else(|| {
            format!("a file with lines such as `authorization: Bearer ...`, and line {} is none", number + 1)
        })?;
        Ok((name.to_ascii_lowercase(), value.to_owned()))
    };
    text.lines().enumerate().filter(is_line).map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::ServeFlags;

    #[test]
    fn a_build_without_traces_names_its_feature() {
        assert_eq!(is_of(true), Ok(()));
        assert!(is_of(false).expect_err("not built").ends_with("without the cargo feature otel"));
        for line in ["otlp = \"http://a:4318\"", "otlp_sample = 0.5", "otlp_service = \"a\""] {
            let sources = Sources::of(&ServeFlags::default(), &[], line).expect("known keys");
            let read = otlp(&sources).map(|settings| settings.is_some()).map_err(|error| error.to_string());
            match read {
                Ok(is_on) => assert!(IS_BUILT && is_on),
                Err(error) if IS_BUILT => assert!(error.ends_with("expected --otlp URL with it"), "{error}"),
                Err(error) => assert!(error.contains("the cargo feature otel"), "{error}"),
            }
        }
    }

    #[test]
    fn a_url_is_that_of_a_collector_or_of_its_traces() {
        for text in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            assert_eq!(url(text, false).as_deref(), Ok("http://c:4318/v1/traces"));
        }
        assert_eq!(url("https://c/otlp", false).as_deref(), Ok("https://c/otlp/v1/traces"));
        assert_eq!(url("https://c/otlp", true).as_deref(), Ok("https://c/otlp"));
        for text in
            ["", "c:4318", "ftp://c", "http://", "http://a:b@c", "http://c?x=y", "http://c#x", "http://c d"]
        {
            assert!(url(text, false).expect_err(text).starts_with("the URL of a collector"), "{text}");
        }
    }

    #[test]
    fn a_share_is_from_nothing_to_all() {
        assert_eq!([sample("0"), sample("1"), sample("0.25")], [Ok(0.0), Ok(1.0), Ok(0.25)]);
        for text in ["", "-0.1", "1.1", "NaN", "inf", "half"] {
            assert!(sample(text).is_err(), "{text}");
        }
    }

    #[cfg(feature = "otel")]
    #[test]
    fn variables_of_opentelemetry_count_where_nothing_else_is_said() {
        let read = |env: &[(&str, &str)], file: &str| {
            let sources = Sources::of(&ServeFlags::default(), env, file).expect("known keys");
            otlp(&sources).map_err(|error| error.to_string())
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        let found = |env: &[(&str, &str)], file: &str| {
            read(&[&[endpoint], env].concat(), file).expect("settings").expect("a collector")
        };
        let plain = found(&[], "");
        assert_eq!(
            (&*plain.url, &*plain.service, plain.timeout_ms),
            ("http://c:4318/v1/traces", "ladoga", 10_000)
        );
        assert_eq!(plain.sampling, Sampling { share: 0.01, follows: true });
        let traces = found(&[(TRACES_ENDPOINT, "http://d/x"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "700")], "");
        assert_eq!((&*traces.url, traces.timeout_ms), ("http://d/x", 700));
        let traces =
            found(&[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "50"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "700")], "");
        assert_eq!(traces.timeout_ms, 50);
        let said = found(
            &[(TRACES_ENDPOINT, "http://d/x"), ("OTEL_SERVICE_NAME", "shop")],
            "otlp = \"http://e\"\notlp_service = \"own\"",
        );
        assert_eq!((&*said.url, &*said.service), ("http://e/v1/traces", "own"));
        for (sampler, argument, share, follows) in [
            ("always_on", "", 1.0, false),
            ("parentbased_always_off", "0.5", 0.0, true),
            ("traceidratio", "0.25", 0.25, false),
            ("parentbased_traceidratio", "", 1.0, true),
        ] {
            let env = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            assert_eq!(found(&env, "").sampling, Sampling { share, follows }, "{sampler}");
            assert_eq!(found(&env, "otlp_sample = 0.75").sampling, Sampling { share: 0.75, follows: true });
        }
        let refused = read(&[endpoint, ("OTEL_TRACES_SAMPLER", "jaeger_remote")], "").expect_err("unknown");
        assert!(
            refused.starts_with("OTEL_TRACES_SAMPLER is 'jaeger_remote', expected always_on"),
            "{refused}"
        );
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(read(&[endpoint, off, ("OTEL_TRACES_SAMPLER", "nonsense")], ""), Ok(None));
            assert!(
                read(&[endpoint, off], "otlp = \"http://e\"").expect("settings").is_some(),
                "what is said counts"
            );
        }
        let refused =
            read(&[endpoint, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")], "").expect_err("none");
        assert!(
            refused.starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE is '/no/such/file', expected a file"),
            "{refused}"
        );
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number_alone() {
        let text = "# to authenticate\nAuthorization: Bearer abc:def\n\nx-key:1\r\n";
        let expected = [("authorization", "Bearer abc:def"), ("x-key", "1")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fields(text), Ok(expected.to_vec()));
        for text in ["secret", "a: b\nsecret", "se cret: a", ": secret", "a:", "a: secret\u{1}"] {
            let error = fields(text).expect_err(text);
            assert!(error.contains("line ") && !error.contains("secret"), "{error}");
        }
        let settings = OtlpSettings {
            url: String::new(),
            sampling: Sampling { share: 1.0, follows: true },
            service: String::new(),
            headers: fields("a: secret").expect("a field"),
            timeout_ms: 1,
            authorities: None,
            identity: Some((Vec::new(), b"secret".to_vec())),
        };
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
