/// A part of a head: from where to where.
pub(super) type Span = (u32, u32);

/// What the header fields say about who asks, by their places in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Asker {
    pub(super) host: Span,
    /// More than one are none that anybody could mean: then it is empty.
    pub(super) authorization: Option<Span>,
    /// Whether there is an `Origin` or a `Sec-Fetch-Site`, which browsers send.
    pub(super) may_be_page: bool,
    /// Whether there is a `traceparent`.
    pub(super) may_be_traced: bool,
}

impl Asker {
    /// Takes note of a field that is none of those about the connection.
    pub(super) fn note(&mut self, head: &[u8], field: &httparse::Header<'_>) {
        let (name, value) = (field.name, field.value);
        match name.len() {
            6 if name.eq_ignore_ascii_case("origin") => self.may_be_page = true,
            14 if name.eq_ignore_ascii_case("sec-fetch-site") => self.may_be_page = true,
            11 if name.eq_ignore_ascii_case("traceparent") => self.may_be_traced = true,
            13 if name.eq_ignore_ascii_case("authorization") => {
                let is_first = self.authorization.is_none();
                self.authorization = Some(if is_first { span(head, value) } else { (0, 0) });
            }
            _ => {}
        }
    }
}

/// Where in `head` a part of it is.
pub(super) fn span(head: &[u8], part: &[u8]) -> Span {
    let start = part.as_ptr().addr() - head.as_ptr().addr();
    (start as u32, (start + part.len()) as u32)
}
