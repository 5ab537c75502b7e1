/// Lines of JSON.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Whether the `Accept` fields of a request prefer lines of JSON to bytes. Who names neither gets bytes.
pub(crate) fn prefers_ndjson<'r>(accept: impl Iterator<Item = &'r [u8]>) -> bool {
    let (mut of_lines, mut of_octets) = (0.0, 0.0);
    for range in accept.filter_map(|field| str::from_utf8(field).ok()).flat_map(|field| field.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let wanted = if media_type.eq_ignore_ascii_case(NDJSON) {
            &mut of_lines
        } else if media_type.eq_ignore_ascii_case("application/octet-stream") {
            &mut of_octets
        } else {
            continue;
        };
        let mut values = parts.filter_map(|parameter| parameter.split_once('='));
        let quality = values.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        let quality = quality.map_or(Some(1.0), |(_, value)| value.trim().parse::<f64>().ok());
        // One that is no quality says nothing.
        if let Some(quality) = quality.filter(|quality| (0.0..=1.0).contains(quality)) {
            *wanted = f64::max(*wanted, quality);
        }
    }
    of_lines > 0.0 && of_lines >= of_octets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(accept: &[&str]) -> bool {
        prefers_ndjson(accept.iter().map(|field| field.as_bytes()))
    }

    #[test]
    fn lines_are_for_who_names_them() {
        for accept in [
            "application/x-ndjson",
            "Application/X-NDJSON; charset=utf-8",
            "application/x-ndjson, */*",
            "*/*, application/x-ndjson;q=0.1",
            "application/octet-stream;q=0.5, application/x-ndjson;q=0.6",
            "application/octet-stream,application/x-ndjson",
        ] {
            assert!(prefers(&[accept]), "{accept}");
        }
        assert!(prefers(&["text/html", "application/x-ndjson"]));
        for accept in [
            "",
            "*/*",
            "application/json",
            "application/*",
            "application/x-ndjson;q=0",
            "application/x-ndjson;q=2",
            "application/x-ndjson;q=NaN",
            "application/x-ndjson;q=much",
            "application/octet-stream, application/x-ndjson;q=0.9",
            "application/x-ndjsonx",
        ] {
            assert!(!prefers(&[accept]), "{accept}");
        }
        assert!(!prefers(&[]) && !prefers_ndjson([&b"\xff"[..]].into_iter()));
    }
}
