//! One key: a value or none, named by numbers of which no two writes share one.

/// What is asked of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// What it holds.
    Read,
    /// That it hold this from now on.
    Write(u64),
    /// That it hold nothing from now on.
    Delete,
    /// That it hold `value`, if it holds `expected` now. `None` is nothing, both times.
    CompareAndSet {
        /// What it has to hold.
        expected: Option<u64>,
        /// What it holds then.
        value: Option<u64>,
    },
    /// That the number that it holds grow by one. Nothing counts as zero.
    Increment,
}

/// An answer to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// It was done.
    Done,
    /// The key held something else than was expected.
    Refused,
    /// What it holds: after a read, or after it grew.
    Value(Option<u64>),
}

/// An operation of a client, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// When it was asked. Any clock that never goes back.
    pub invoked: u64,
    /// What was asked.
    pub input: Input,
    /// When it was answered and with what; `None` if the outcome is unknown.
    pub answer: Option<(u64, Output)>,
}

impl Operation {
    /// When nothing that begins can have happened before it any more.
    pub(crate) fn returned(&self) -> Option<u64> {
        self.answer.map(|(at, _)| at)
    }
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Register(pub Option<u64>);

impl Register {
    /// What it holds after this operation; `None` if its answer could not have been given.
    pub(crate) fn after(self, operation: &Operation) -> Option<Register> {
        let (next, output) = self.obey(operation.input);
        let is_possible = operation.answer.is_none_or(|(_, told)| told == output);
        is_possible.then_some(next)
    }

    /// What it holds after this, and what it answers.
    pub fn obey(self, input: Input) -> (Register, Output) {
        match input {
            Input::Read => (self, Output::Value(self.0)),
            Input::Write(value) => (Register(Some(value)), Output::Done),
            Input::Delete => (Register(None), Output::Done),
            Input::CompareAndSet { expected, value } if self.0 == expected => (Register(value), Output::Done),
            Input::CompareAndSet { .. } => (self, Output::Refused),
            Input::Increment => {
                let next = Some(self.0.unwrap_or(0) + 1);
                (Register(next), Output::Value(next))
            }
        }
    }
}

/// Removes writes with an unknown outcome whose values no client saw: without them the others can be ordered if and only if
/// they can be with them. Each one that stays doubles what has to be tried.
pub(crate) fn without_unseen(operations: &[Operation]) -> Vec<Operation> {
    // A refusal or a number tells no more than that the key held something else.
    let is_opaque = operations.iter().any(|operation| {
        matches!(operation.input, Input::Increment) || matches!(operation.answer, Some((_, Output::Refused)))
    });
    let is_seen = |value: u64| {
        operations.iter().any(|other| {
            let is_told = matches!(other.answer, Some((_, Output::Value(told))) if told == Some(value));
            let is_expected =
                matches!(other.input, Input::CompareAndSet { expected, .. } if expected == Some(value));
            is_told || is_expected
        })
    };
    let is_needed = |operation: &&Operation| match operation.input {
        Input::Write(value) if operation.answer.is_none() => is_opaque || is_seen(value),
        Input::Read => operation.answer.is_some(),
        _ => true,
    };
    operations.iter().filter(is_needed).copied().collect()
}
