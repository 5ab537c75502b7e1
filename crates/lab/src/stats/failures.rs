use super::class::Class;

/// The one definition of what an error is, for the terminal, the verdicts, the pages and the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) failed: u64,
    /// Requests whose fate is known, and connections that could not be made. One that is on its way at the end is neither.
    pub(crate) of: u64,
}

impl Failures {
    /// `lost` are those requests without an answer that would have got none in a longer run.
    pub(crate) fn of(
        answers: impl Iterator<Item = (Class, u64)>,
        connect_errors: u64,
        lost: u64,
        misses_are_good: bool,
    ) -> Self {
        let mut failures = Self { failed: connect_errors + lost, of: connect_errors + lost };
        for (class, count) in answers {
            failures.of += count;
            failures.failed += if class.is_failure(misses_are_good) { count } else { 0 };
        }
        failures
    }

    /// From 0 to 1; none if nothing happened.
    pub(crate) fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.failed as f64 / self.of as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_failed_counts_once() {
        let answers = [(Class::Success, 90), (Class::NOT_FOUND, 4), (Class::TimedOut, 1)];
        let failures = |misses| Failures::of(answers.into_iter(), 2, 3, misses);
        assert_eq!(failures(false), Failures { failed: 10, of: 100 });
        assert_eq!(failures(true).share(), Some(0.06));
        assert_eq!(Failures::of(std::iter::empty(), 0, 0, false).share(), None);
    }
}
