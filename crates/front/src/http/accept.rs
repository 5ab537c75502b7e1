/// Lines of JSON.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Server-sent events.
pub(crate) const EVENTS: &str = "text/event-stream";

/// Whether the `Accept` fields of a request prefer lines of JSON to bytes. Who names neither gets bytes.
pub(crate) fn prefers_ndjson<'r>(accept: impl Iterator<Item = &'r [u8]>) -> bool {
    prefers(accept, NDJSON, "application/octet-stream")
}

/// Whether they prefer server-sent events to lines of JSON. Who names neither gets lines.
pub(crate) fn prefers_events<'r>(accept: impl Iterator<Item = &'r [u8]>) -> bool {
    prefers(accept, EVENTS, NDJSON)
}

/// Whether they name one media type, and no other one rather.
fn prefers<'r>(accept: impl Iterator<Item = &'r [u8]>, one: &str, other: &str) -> bool {
    let (mut of_one, mut of_other) = (0.0, 0.0);
    for range in accept.filter_map(|field| str::from_utf8(field).ok()).flat_map(|field| field.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let wanted = if media_type.eq_ignore_ascii_case(one) {
            &mut of_one
        } else if media_type.eq_ignore_ascii_case(other) {
            &mut of_other
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
    of_one > 0.0 && of_one >= of_other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers_lines(accept: &[&str]) -> bool {
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
            assert!(prefers_lines(&[accept]), "{accept}");
        }
        assert!(prefers_lines(&["text/html", "application/x-ndjson"]));
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
            assert!(!prefers_lines(&[accept]), "{accept}");
        }
        assert!(!prefers_lines(&[]) && !prefers_ndjson([&b"\xff"[..]].into_iter()));
    }

    #[test]
    fn events_are_for_who_names_them() {
        let events = |accept: &str| prefers_events([accept.as_bytes()].into_iter());
        assert!(events("text/event-stream") && events("text/event-stream, */*"));
        assert!(!events("*/*") && !events("application/x-ndjson") && !events("text/event-stream;q=0"));
    }
}
