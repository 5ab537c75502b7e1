//! Keys of which there is one copy. Their reads tell no version, and what was acknowledged is lost with its disk. Until then, a read
//! gives what was acknowledged last before it began, or what may have taken its place.

use std::collections::BTreeMap;

use ladoga_service::Error;

use crate::clients::Wish;
use crate::request::{Answer, Request};
use crate::values::{Key, number_of};
use crate::written::APART_MS_MAX;

/// How long after its beginning a write may get its version that was not acknowledged, or win over a later one by that: as long as a client
/// waits, and as versions may be apart.
const OPEN_US: u64 = (10_000 + APART_MS_MAX) * 1000;

#[derive(Debug, Default)]
pub(crate) struct OneCopyKeys(BTreeMap<Key, Vec<OneCopyWrite>>);

/// A write that may have happened.
#[derive(Debug)]
struct OneCopyWrite {
    number: u64,
    began_us: u64,
    acknowledged_us: Option<u64>,
    /// Whether it is a deletion, or its value expires: by the clock of the one node that has it, whatever that shows.
    is_passing: bool,
    /// Whether the disk was lost that has it, if any has.
    is_lost: bool,
}

impl OneCopyWrite {
    /// Whether it surely took effect before this one, if it did.
    fn is_before(&self, other: &OneCopyWrite) -> bool {
        self.acknowledged_us.unwrap_or(self.began_us + OPEN_US) < other.began_us
    }

    fn is_known_at(&self, us: u64) -> bool {
        self.acknowledged_us.is_some_and(|at_us| at_us < us)
    }
}

impl OneCopyKeys {
    /// A client asks.
    pub(crate) fn begins(&mut self, request: &Request) {
        if request.replicas.from > 1 || request.wish == Wish::Get {
            return;
        }
        let is_passing = !matches!(request.wish, Wish::Put { ttl: None, .. });
        let (number, began_us) = (request.number, request.began_us);
        let write = OneCopyWrite { number, began_us, acknowledged_us: None, is_passing, is_lost: false };
        self.0.entry(request.key.clone()).or_default().push(write);
    }

    /// A client is told. Answers what is wrong with that.
    pub(crate) fn ends(
        &mut self,
        us: u64,
        request: &Request,
        answer: &Result<Answer, Error>,
    ) -> Option<String> {
        let writes = self.0.get_mut(&request.key).filter(|_| request.replicas.from == 1)?;
        match answer {
            Ok(Answer::Read(found)) => {
                let value = found.value.as_deref().map(number_of);
                let missed = missed(writes, value, request.began_us)?;
                let (key, OneCopyWrite { number, .. }) = (request.key.escape_ascii(), missed);
                let value =
                    value.map_or(String::from("nothing"), |value| format!("the value of request {value}"));
                return Some(format!(
                    "{key}: a read of the one copy gave {value}, but request {number} was acknowledged before it began"
                ));
            }
            // It has written nothing.
            Ok(Answer::Refused(_)) => writes.retain(|write| write.number != request.number),
            Ok(Answer::Written(_) | Answer::Counted(..)) => {
                let write = writes.iter_mut().find(|write| write.number == request.number && !write.is_lost);
                write.into_iter().for_each(|write| write.acknowledged_us = Some(us));
            }
            Err(error) if error.may_have_happened() => {}
            Err(_) => writes.retain(|write| write.number != request.number),
        }
        None
    }

    /// The disk is lost that has the copies of these keys. What was written may be there all the same, in a backup or on its way.
    pub(crate) fn lose(&mut self, is_on_it: impl Fn(&Key) -> bool) {
        let lost = self.0.iter_mut().filter(|(key, _)| is_on_it(key));
        for write in lost.flat_map(|(_, writes)| writes) {
            (write.acknowledged_us, write.is_lost) = (None, true);
        }
    }
}

/// What a read must have seen that began at this time, and gave the value of this request or nothing.
fn missed(writes: &[OneCopyWrite], value: Option<u64>, began_us: u64) -> Option<&OneCopyWrite> {
    writes.iter().filter(|write| write.is_known_at(began_us)).find(|known| match value {
        Some(value) => writes.iter().any(|write| write.number == value && write.is_before(known)),
        None => !known.is_passing && writes.iter().all(|write| !write.is_passing || write.is_before(known)),
    })
}

#[cfg(test)]
#[path = "one_copy_tests.rs"]
mod tests;
