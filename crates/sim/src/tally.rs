//! How often a counter was counted up, as far as clients know, and what it holds.

use crate::checker::is_checked;
use crate::request::{Answer, Request};
use crate::values::count_of;
use crate::written::Found;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// So often, as clients were told.
    added: u64,
    /// So often, or not.
    unknown: u64,
    /// When the last increment began or ended.
    changed_us: u64,
    /// What was read by a majority after that.
    read: Option<u64>,
}

impl Tally {
    /// A client asks for an increment.
    pub(crate) fn begins(&mut self, increment: &Request) {
        self.unknown += 1;
        self.changes(increment.began_us);
    }

    fn changes(&mut self, us: u64) {
        self.changed_us = us;
        self.read = None;
    }

    /// A client is told.
    pub(crate) fn ends(&mut self, us: u64, request: &Request, answer: &Answer) {
        match answer {
            Answer::Counted(..) => {
                self.added += 1;
                self.unknown -= 1;
                self.changes(us);
            }
            Answer::Read(Found { value, .. })
                if is_checked(request.replicas) && request.began_us > self.changed_us =>
            {
                self.read = Some(value.as_deref().map_or(0, count_of));
            }
            _ => {}
        }
    }

    /// What is wrong with what was read in the end.
    pub(crate) fn wrong(&self, key: &[u8]) -> Option<String> {
        let (added, unknown, read) = (self.added, self.unknown, self.read?);
        let is_right = added <= read && read <= added + unknown;
        let key = key.escape_ascii();
        (!is_right).then(|| format!("{key} is {read}, but {added} were added, and {unknown} more, or not"))
    }
}
