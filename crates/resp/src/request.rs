use std::ops::Index;

use bytes::Bytes;

/// So many arguments need no memory of their own.
const PLACES_NEAR: usize = 8;

/// Where arguments are: where each begins in their frame, and how long it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    near: [(u32, u32); PLACES_NEAR],
    far: Vec<(u32, u32)>,
    count: usize,
}

impl Places {
    pub(crate) fn push(&mut self, begin: usize, bytes: usize) {
        let place = (begin as u32, bytes as u32);
        match self.near.get_mut(self.count) {
            Some(near) => *near = place,
            None => self.far.push(place),
        }
        self.count += 1;
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// # Panics
    /// If there is none of this number.
    pub(crate) fn range(&self, number: usize) -> std::ops::Range<usize> {
        assert!(number < self.count, "there are {} arguments", self.count);
        let (begin, bytes) =
            if number < PLACES_NEAR { self.near[number] } else { self.far[number - PLACES_NEAR] };
        begin as usize..begin as usize + bytes as usize
    }
}

/// A request: its arguments, of which the first is the name of the command. They are where they arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Arguments up to one that was taken out piece by piece, which is empty here.
    before: Vec<Bytes>,
    /// What has all others.
    frame: Bytes,
    places: Places,
}

impl Request {
    pub(crate) const fn new(before: Vec<Bytes>, frame: Bytes, places: Places) -> Request {
        Request { before, frame, places }
    }

    pub(crate) fn of(frame: Bytes, arguments: Vec<(usize, usize)>) -> Request {
        let mut places = Places::default();
        arguments.into_iter().for_each(|(begin, bytes)| places.push(begin, bytes));
        Request { before: Vec::new(), frame, places }
    }

    /// How many arguments there are, its name included.
    pub fn len(&self) -> usize {
        self.before.len() + self.places.len()
    }

    /// Whether it has no name even.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An argument, as something that can be kept.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn bytes(&self, number: usize) -> Bytes {
        match self.before.get(number) {
            Some(argument) => argument.clone(),
            None => self.frame.slice(self.places.range(number - self.before.len())),
        }
    }

    /// An argument, if there is one of this number.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        (number < self.len()).then(|| &self[number])
    }

    /// All arguments from this number on.
    pub fn from(&self, number: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (number..self.len()).map(|number| &self[number])
    }

    /// The same in memory of its own, so that it does not keep what arrived around it: that may be much longer, however long it is.
    #[must_use]
    pub fn detached(&self) -> Request {
        Request {
            before: self.before.iter().map(|argument| Bytes::copy_from_slice(argument)).collect(),
            frame: Bytes::copy_from_slice(&self.frame),
            places: self.places.clone(),
        }
    }

    /// Whether these bytes are a part of its memory.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        let is_within = |own: &Bytes| {
            let (own, bytes) = (own.as_ptr_range(), bytes.as_ptr_range());
            own.start <= bytes.start && bytes.end <= own.end
        };
        is_within(&self.frame) || self.before.iter().any(is_within)
    }

    /// How many bytes of memory it holds.
    pub fn memory_bytes(&self) -> usize {
        let before: usize = self.before.iter().map(|argument| argument.len() + size_of::<Bytes>()).sum();
        before + self.frame.len() + size_of::<Request>() + self.places.far.len() * size_of::<(u32, u32)>()
    }
}

impl Index<usize> for Request {
    type Output = [u8];

    fn index(&self, number: usize) -> &[u8] {
        match self.before.get(number) {
            Some(argument) => argument,
            None => &self.frame[self.places.range(number - self.before.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_kept_keeps_nothing_else() {
        let arrived = Bytes::from(vec![b'x'; 300_000]);
        for length in [10, 100_000] {
            let frame = Request::of(arrived.slice(40..40 + length), vec![(0, 4), (4, 6)]);
            let request = Request { before: vec![arrived.slice(0..30)], ..frame };
            let detached = request.detached();
            assert_eq!(detached, request);
            for number in 0..3 {
                assert!(!arrived.as_ptr_range().contains(&detached[number].as_ptr()));
                assert!(arrived.as_ptr_range().contains(&request[number].as_ptr()));
                assert!(request.contains(&request[number]) && !request.contains(&detached[number]));
            }
        }
    }
}
