use hyper::server::conn::http1;

use super::meter::HEAD_BYTES_MAX;
use crate::http::HEADERS_BYTES_MAX;

/// What hyper reads and writes at once on one connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Headers that fit into their limit, if they are as short as can be.
const HEADERS_MAX: usize = HEADERS_BYTES_MAX / 4;

const _: () = assert!(BUFFER_BYTES_MAX > HEAD_BYTES_MAX);

/// How hyper is to speak HTTP.
pub(crate) struct Builders {
    /// With as many headers as it has room for on the stack: what nearly all clients need.
    pub(crate) few_headers: http1::Builder,
    /// With as many as there may be, on the heap.
    pub(crate) many_headers: http1::Builder,
}

impl Builders {
    pub(super) fn new() -> Builders {
        let few_headers = builder();
        let mut many_headers = few_headers.clone();
        many_headers.max_headers(HEADERS_MAX);
        Builders { few_headers, many_headers }
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // A client that has sent everything and closes its half still gets its answer.
        .half_close(true)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        // The sweeper does that, without a timer for every request.
        .header_read_timeout(None)
        // Bodies are small, and copying one is cheaper than a system call with two buffers.
        .writev(false);
    builder
}
