use bytes::{BufMut, BytesMut};
use ladoga_model::TraceContext;

use super::frame::FrameError;
use super::reader::Reader;

/// The version of the protocol from which on a frame may say of which traces the requests behind it are.
const TRACES_SINCE: u8 = 9;

pub(super) const TRACES_KIND: u8 = 22;
/// Requests of which a frame says that, at most.
pub(crate) const TRACES_MAX: usize = 128;

/// Requests that are to come, by their numbers, and the spans that ask for them.
pub(super) fn put_traces(out: &mut BytesMut, traces: &[(u32, TraceContext)]) {
    for (number, context) in traces {
        out.put_u32_le(*number);
        out.put_slice(&context.trace_id);
        out.put_slice(&context.span_id);
    }
}

/// What a peer is told of these traces: nothing, if it speaks a version that has no words for that.
pub(crate) fn told_traces(version: u8, traces: Vec<(u32, TraceContext)>) -> Option<Vec<(u32, TraceContext)>> {
    (version >= TRACES_SINCE && !traces.is_empty()).then_some(traces)
}

pub(super) fn take_traces(mut reader: Reader) -> Result<Vec<(u32, TraceContext)>, FrameError> {
    let mut traces = Vec::new();
    while traces.is_empty() || !reader.is_empty() {
        if traces.len() == TRACES_MAX {
            return Err(reader.wrong("it has too many traces"));
        }
        let (number, trace_id, span_id) = (reader.u32()?, reader.array()?, reader.array()?);
        if trace_id == [0; 16] || span_id == [0; 8] {
            return Err(reader.wrong("a trace that is not all zeros was expected"));
        }
        traces.push((number, TraceContext { trace_id, span_id }));
    }
    Ok(traces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Frame, PROTOCOL_VERSION_MIN, Request, take_frame};

    fn traces(count: u8) -> Vec<(u32, TraceContext)> {
        let context = |n: u8| TraceContext { trace_id: [n + 1; 16], span_id: [n + 2; 8] };
        (0..count).map(|n| (u32::from(n), context(n))).collect()
    }

    fn frame(traces: &[(u32, TraceContext)]) -> Frame {
        let mut wire = BytesMut::new();
        Request::Traces(traces.to_vec()).put(&mut wire, u32::MAX);
        take_frame(&mut wire).expect("a frame").expect("a whole one")
    }

    #[test]
    fn traces_come_out_as_they_went_in() {
        for count in [1, 2, TRACES_MAX as u8] {
            assert_eq!(Request::of(&frame(&traces(count))), Ok(Request::Traces(traces(count))));
        }
    }

    #[test]
    fn a_peer_of_a_release_without_traces_is_sent_none() {
        for version in PROTOCOL_VERSION_MIN..TRACES_SINCE {
            assert_eq!(told_traces(version, traces(3)), None, "version {version}");
        }
        assert_eq!(told_traces(TRACES_SINCE, traces(3)), Some(traces(3)));
        assert_eq!(told_traces(TRACES_SINCE, Vec::new()), None);
    }

    #[test]
    fn a_body_that_is_no_list_of_traces_is_refused() {
        let whole = frame(&traces(2));
        for cut in 0..whole.body.len() {
            let part = Frame { body: whole.body.slice(..cut), ..whole.clone() };
            assert_eq!(Request::of(&part).is_ok(), cut == whole.body.len() / 2, "cut at {cut}");
        }
        let error = Request::of(&frame(&traces(TRACES_MAX as u8 + 1))).expect_err("too many");
        assert!(error.to_string().contains("too many traces"), "{error}");
        let nothing = TraceContext { trace_id: [0; 16], span_id: [1; 8] };
        assert!(Request::of(&frame(&[(1, nothing)])).is_err());
    }
}
