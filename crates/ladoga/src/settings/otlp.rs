//! Where traces go. A build without the cargo feature otel refuses each of these settings.

use std::fmt;

use ladoga_http1::Uri;

use super::SettingError;
use super::sources::Sources;

/// Whether this binary can export traces.
const IS_BUILT: bool = cfg!(feature = "otel");
/// The share of the requests without a `traceparent` that are recorded if nothing is said.
const SAMPLE: f64 = 0.01;
const SERVICE: &str = "ladoga";
/// Where OTLP has traces, below the URL of a collector.
const PATH: &str = "/v1/traces";
/// The longest file of header fields.
const HEADERS_BYTES_MAX: u64 = 16 << 10;

/// What beside the URL is only for traces.
const ITS_OWN: [&str; 3] = ["otlp_sample", "otlp_service", "otlp_headers_file"];

/// Where traces go.
#[derive(PartialEq)]
pub(crate) struct OtlpSettings {
    /// The whole URL that they are posted to.
    pub(crate) url: String,
    /// The share of the requests without a `traceparent` that are recorded.
    pub(crate) sample: f64,
    /// The name of the service.
    pub(crate) service: String,
    /// Fields to authenticate by.
    pub(crate) headers: Vec<(String, String)>,
}

/// Without the values of the fields, which are secrets.
impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtlpSettings { url, sample, service, .. } = self;
        f.debug_struct("OtlpSettings")
            .field("url", url)
            .field("sample", sample)
            .field("service", service)
            .finish_non_exhaustive()
    }
}

/// Reads them; none if traces are not exported.
pub(super) fn otlp(sources: &Sources) -> Result<Option<OtlpSettings>, SettingError> {
    let of_this_build = |name: &str| sources.get(name, |_| is_of(IS_BUILT)).map(drop);
    ["otlp"].iter().chain(&ITS_OWN).try_for_each(|name| of_this_build(name))?;
    let Some(url) = sources.get("otlp", url)? else {
        for name in ITS_OWN {
            sources.get(name, |_| Err::<(), _>("--otlp URL with it".to_owned()))?;
        }
        return Ok(None);
    };
    Ok(Some(OtlpSettings {
        url,
        sample: sources.get("otlp_sample", sample)?.unwrap_or(SAMPLE),
        service: sources.get("otlp_service", service)?.unwrap_or_else(|| SERVICE.to_owned()),
        headers: sources.get("otlp_headers_file", headers)?.unwrap_or_default(),
    }))
}

/// Checks the form of a setting of which this file knows.
pub(super) fn check_form(name: &str, text: &str) -> Result<(), String> {
    is_of(IS_BUILT)?;
    match name {
        "otlp" => url(text).map(drop),
        "otlp_sample" => sample(text).map(drop),
        "otlp_service" => service(text).map(drop),
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
fn url(text: &str) -> Result<String, String> {
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
    let base = text.trim_end_matches('/');
    Ok(if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") })
}

fn sample(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "a number from 0 to 1, such as 0.01".to_owned())
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
            assert_eq!(url(text).as_deref(), Ok("http://c:4318/v1/traces"));
        }
        assert_eq!(url("https://c/otlp").as_deref(), Ok("https://c/otlp/v1/traces"));
        for text in
            ["", "c:4318", "ftp://c", "http://", "http://a:b@c", "http://c?x=y", "http://c#x", "http://c d"]
        {
            assert!(url(text).expect_err(text).starts_with("the URL of a collector"), "{text}");
        }
    }

    #[test]
    fn a_share_is_from_nothing_to_all() {
        assert_eq!([sample("0"), sample("1"), sample("0.25")], [Ok(0.0), Ok(1.0), Ok(0.25)]);
        for text in ["", "-0.1", "1.1", "NaN", "inf", "half"] {
            assert!(sample(text).is_err(), "{text}");
        }
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
            sample: 1.0,
            service: String::new(),
            headers: fields("a: secret").expect("a field"),
        };
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
