use crate::register::{Input, Output};

/// What a client asked, and what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// When it was asked. Any clock that never goes back.
    pub invoked: u64,
    /// What was asked.
    pub input: Input,
    /// When it was answered and with what; `None` if nobody knows what became of it.
    pub answer: Option<(u64, Output)>,
}

impl Operation {
    /// When nothing that begins can have happened before it any more.
    pub(crate) fn returned(&self) -> Option<u64> {
        self.answer.map(|(at, _)| at)
    }
}
