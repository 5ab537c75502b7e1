use std::cell::RefCell;

use ladoga_model::TraceContext;

use crate::wire::TRACES_MAX;

/// Of which spans requests of a peer are parts that are to come, by their numbers.
#[derive(Default)]
pub(super) struct Traces(RefCell<Vec<(u32, TraceContext)>>);

impl Traces {
    /// The peer has said so of these. They come soon: of those before them, only the last ones are remembered.
    pub(super) fn expect(&self, said: Vec<(u32, TraceContext)>) {
        let mut expected = self.0.borrow_mut();
        expected.extend(said);
        let surplus = expected.len().saturating_sub(TRACES_MAX);
        expected.drain(..surplus);
    }

    /// The span that the request of this number is a part of, if it is one.
    pub(super) fn take(&self, number: u32) -> Option<TraceContext> {
        let mut expected = self.0.borrow_mut();
        let place = expected.iter().position(|(expected, _)| *expected == number)?;
        Some(expected.remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_have_more_remembered_than_a_bound() {
        let context = |n: u8| TraceContext { trace_id: [n; 16], span_id: [n; 8] };
        let traces = Traces::default();
        traces.expect(vec![(1, context(1)), (2, context(2))]);
        assert_eq!((traces.take(2), traces.take(2), traces.take(3)), (Some(context(2)), None, None));
        for number in 0..10 * TRACES_MAX as u32 {
            traces.expect(vec![(number, context(9))]);
        }
        assert_eq!(traces.0.borrow().len(), TRACES_MAX);
        assert_eq!(traces.take(1), None);
    }
}
