//! The messages of nodes to each other, as bytes.
//!
//! - `frame`: lengths, checksums, numbers of requests
//! - `message`: the grammar; `request`, `answer`: the messages; `parts`: what several of them have
//! - `reads`: several reads in one frame; `forward`: conditional requests that another node decides
//! - `traces`: of which traces requests are
//! - `hello`: the first message on either side
//! - `record`: the cells of a range
//! - `reader`: decodes bodies, nothing trusted

mod answer;
mod forward;
mod frame;
mod hello;
#[cfg(test)]
mod longest_tests;
mod message;
mod parts;
mod reader;
mod reads;
mod record;
mod request;
#[cfg(test)]
mod tests;
mod traces;

pub use answer::Answer;
pub use forward::{Change, Changed, Forward, Forwarded};
pub use frame::{FRAME_BYTES_MAX, Frame, FrameError, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, take_frame};
pub use hello::{Hello, Versions};
pub use ladoga_cluster::{AsOf, Had, Incarnation, Origin, Statement};
pub use ladoga_service::Precondition;
pub use message::PeerCell;
pub use parts::Base;
pub use record::put_record;
pub use request::Request;

pub(crate) use forward::{CONTENDED, FORWARD_BYTES_MAX, FORWARD_VERSIONS_MAX, FORWARDED_BYTES_MAX};
pub(crate) use frame::{INLINE_BYTES_MAX, SKIPS_SINCE, frame_bytes};
pub(crate) use reads::{READS_SINCE, Reads};
pub(crate) use record::{Record, put_mark, take_record};
pub(crate) use traces::{TRACES_MAX, told_traces};

use bytes::BytesMut;

/// Decodes whatever is in `bytes` as a peer's, both as requests and as answers: what a fuzzer calls.
pub fn decode_all(bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    while let Ok(Some(frame)) = take_frame(&mut input) {
        decode(&frame);
    }
    record::decode_records(bytes);
    // Checksums keep fuzzers out; so once more without.
    if let Some((&kind, body)) = bytes.split_first() {
        decode(&Frame { request: 0, kind, body: BytesMut::from(body).freeze() });
    }
}

fn decode(frame: &Frame) {
    let mut again = BytesMut::new();
    let _ = Request::all_of(frame, |number, request, _| request.put(&mut again, number));
    if let Ok(answer) = Answer::of(frame) {
        answer.put(&mut again, frame.request);
    }
}
