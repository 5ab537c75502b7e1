use super::Exposition;

impl Exposition {
    /// The format that the `Accept` fields of a request prefer. Who names neither gets the text format.
    pub(super) fn preferred<'r>(accept: impl Iterator<Item = &'r [u8]>) -> Exposition {
        let (mut preferred, mut best) = (Exposition::Text, 0.0);
        for range in accept.filter_map(|field| str::from_utf8(field).ok()).flat_map(|field| field.split(','))
        {
            let Some((format, quality)) = media_range(range) else { continue };
            if quality > best {
                (preferred, best) = (format, quality);
            }
        }
        preferred
    }
}

/// A format, and how much it is wanted, if this names one that there is.
fn media_range(range: &str) -> Option<(Exposition, f64)> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    let (format, its_version) = match media_type.as_str() {
        "application/openmetrics-text" => (Exposition::OpenMetrics, "1.0.0"),
        "text/plain" => (Exposition::Text, "0.0.4"),
        _ => return None,
    };
    let mut quality = 1.0;
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => quality = value.trim().parse().ok()?,
            "version" if value.trim().trim_matches('"') != its_version => return None,
            _ => {}
        }
    }
    // An invalid quality counts as if the format was not listed.
    (0.0..=1.0).contains(&quality).then_some((format, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(accept: &[&str]) -> Exposition {
        Exposition::preferred(accept.iter().map(|field| field.as_bytes()))
    }

    #[test]
    fn prometheus_gets_open_metrics() {
        let of_2_x = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_3_x = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                      application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;\
                      q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(preferred(&[of_2_x]), Exposition::OpenMetrics);
        assert_eq!(preferred(&[of_3_x]), Exposition::OpenMetrics);
        assert_eq!(
            preferred(&["text/html", "Application/OpenMetrics-Text; Version=\"1.0.0\""]),
            Exposition::OpenMetrics
        );
    }

    #[test]
    fn everybody_else_gets_text() {
        for accept in [
            "*/*",
            "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
            "text/plain;q=0.6, application/openmetrics-text;q=0.5",
            "text/plain, application/openmetrics-text",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=much",
            "application/openmetrics-text;q=NaN",
            "application/openmetrics-text;q=1e400",
            "application/openmetrics-text;q=2, text/plain;q=0.1",
            "",
        ] {
            assert_eq!(preferred(&[accept]), Exposition::Text, "{accept}");
        }
        assert_eq!(preferred(&[]), Exposition::Text);
        assert_eq!(Exposition::preferred([&b"\xff"[..]].into_iter()), Exposition::Text);
    }
}
