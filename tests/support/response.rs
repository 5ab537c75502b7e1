use std::io::{self, BufRead, ErrorKind, Read};

/// An answer, parsed as RFC 9112 demands and not a byte more leniently. It has a reader of its own, and not that of the
/// product: a test must not share the mistakes of what it tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case, in the order in which they came.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The body as it was cut, if it came in chunks.
    pub(crate) chunks: Option<Vec<Vec<u8>>>,
}

impl Response {
    /// The value of a header that is there at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let first = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "the header {name} is there more than once: {:?}", self.headers);
        first
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("a body of text")
    }

    /// Whether the server will close the connection after this.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The records of a range, each having come as one chunk.
    pub(crate) fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let chunks = self.chunks.as_ref().expect("a body in chunks");
        chunks.iter().map(|chunk| split_record(chunk)).collect()
    }

    /// Reads an answer; `to_head` if it is one to HEAD, which has no body whatever its headers announce.
    pub(crate) fn read(from: &mut impl BufRead, to_head: bool) -> io::Result<Response> {
        let mut response = Response::read_head(from)?;
        if to_head || response.status < 200 || response.status == 204 || response.status == 304 {
            return Ok(response);
        }
        let length = response.header("content-length").map(|text| text.parse().expect("a length"));
        match (length, response.header("transfer-encoding")) {
            (Some(length), None) => response.body = read_exactly(from, length)?,
            (None, Some("chunked")) => {
                let chunks = read_chunks(from)?;
                response.body = chunks.concat();
                response.chunks = Some(chunks);
            }
            (None, None) if response.closes() => {
                from.read_to_end(&mut response.body)?;
            }
            _ => panic!("an answer whose end nobody can tell: {response:?}"),
        }
        Ok(response)
    }

    /// Reads an answer up to the beginning of its body.
    pub(crate) fn read_head(from: &mut impl BufRead) -> io::Result<Response> {
        let line = read_line(from)?;
        let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("no status line: {line:?}"));
        let (digits, _reason) = rest.split_once(' ').unwrap_or_else(|| panic!("no status line: {line:?}"));
        assert_eq!(digits.len(), 3, "no status: {line:?}");
        let status = digits.parse().unwrap_or_else(|_| panic!("no status: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = read_line(from)?;
            if line.is_empty() {
                return Ok(Response { status, headers, body: Vec::new(), chunks: None });
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
            assert!(!name.is_empty() && !name.contains(' '), "no header: {line:?}");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
}

/// A line without its end, which has to be a carriage return and a line feed.
fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection ended within a line"));
    }
    assert_eq!(line.pop(), Some(b'\r'), "a line without a carriage return");
    Ok(String::from_utf8(line).expect("a head of text"))
}

fn read_exactly(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    let mut chunks = Vec::new();
    while let Some(chunk) = read_chunk(from)? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// One chunk; `None` for the last one, which is empty.
pub(crate) fn read_chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let line = read_line(from)?;
    let length = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no length: {line:?}"));
    let chunk = read_exactly(from, length)?;
    let end = read_line(from)?;
    assert_eq!(end, "", "a chunk that does not end where it said");
    Ok((length > 0).then_some(chunk))
}

/// A chunk of a range: key, newline, value. Keys of these tests have no newline, but values may.
pub(crate) fn split_record(chunk: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let newline = chunk.iter().position(|&byte| byte == b'\n').expect("a newline after the key");
    (chunk[..newline].to_vec(), chunk[newline + 1..].to_vec())
}

/// Every refusal has the status that it should have, and one line of plain text.
#[track_caller]
pub(crate) fn assert_refusal(response: &Response, status: u16, request: &str) {
    let request = &request[..request.floor_char_boundary(200)];
    assert_eq!(response.status, status, "{request:?} was answered {response:?}");
    let content_type = response.header("content-type").unwrap_or_default();
    assert!(content_type.starts_with("text/plain"), "{request:?} was answered with {content_type:?}");
    let text = response.text();
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("{request:?}: no line ends in {text:?}"));
    assert!(!line.trim().is_empty(), "{request:?} was answered without a reason");
    assert!(!line.contains(char::is_control), "{request:?} was answered with more than a line: {text:?}");
    if status == 503 {
        let seconds = response.header("retry-after").map(str::parse::<u32>);
        assert!(matches!(seconds, Some(Ok(_))), "{request:?}: 503 without Retry-After: {response:?}");
    }
}
