use std::fmt::Write;

/// `bytes` for a query: what RFC 3986 calls unreserved as it is, anything else as a percent sequence.
pub(crate) fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes text");
        }
    }
    text
}

/// The target of an entity.
pub(crate) fn entity(key: impl AsRef<[u8]>) -> String {
    format!("/v0/entity?id={}", percent_encoded(key.as_ref()))
}

/// The target of the entities from `start` on, and before `end` if there is one.
pub(crate) fn range(start: impl AsRef<[u8]>, end: Option<&[u8]>) -> String {
    let start = percent_encoded(start.as_ref());
    end.map_or_else(
        || format!("/v0/entities?start={start}"),
        |end| format!("/v0/entities?start={start}&end={}", percent_encoded(end)),
    )
}
