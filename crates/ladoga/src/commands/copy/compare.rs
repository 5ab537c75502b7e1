use super::super::Failure;

/// Differences that are described; others are counted.
const DESCRIBED_MAX: usize = 10;
/// Times to live are counted from when each side got the value, by clocks that need not be the same.
const EXPIRY_DIFFERENCE_MS_MAX: u64 = 60_000;

/// A record, as one side has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) key: Vec<u8>,
    /// 0 if it never does.
    pub(super) expires_ms: u64,
    /// None if it is too large to be held.
    pub(super) value: Option<Vec<u8>>,
}

impl Seen {
    /// Whether it may be gone on one side already, and still be there on the other one.
    pub(super) fn is_about_to_expire(&self, now_ms: u64) -> bool {
        self.expires_ms != 0 && self.expires_ms <= now_ms + EXPIRY_DIFFERENCE_MS_MAX
    }
}

/// Whether two sides have the same moment, for all that can be told.
pub(super) fn expire_together(from: &Seen, to: &Seen) -> bool {
    (from.expires_ms == 0) == (to.expires_ms == 0)
        && from.expires_ms.abs_diff(to.expires_ms) <= EXPIRY_DIFFERENCE_MS_MAX
}

/// How two sides differ in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    OnlySource,
    OnlyTarget,
    Value,
    Expiry,
}

impl Difference {
    const fn words(self) -> &'static str {
        match self {
            Difference::OnlySource => "is only in the source",
            Difference::OnlyTarget => "is only in the target",
            Difference::Value => "has another value in the target",
            Difference::Expiry => "expires at another time in the target",
        }
    }
}

/// What a comparison has come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) same: u64,
    only_source: u64,
    only_target: u64,
    values: u64,
    expiries: u64,
    /// The first differences, for people.
    described: Vec<String>,
}

impl Compared {
    pub(super) fn differs(&mut self, key: &[u8], difference: Difference) {
        let count = match difference {
            Difference::OnlySource => &mut self.only_source,
            Difference::OnlyTarget => &mut self.only_target,
            Difference::Value => &mut self.values,
            Difference::Expiry => &mut self.expiries,
        };
        *count += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("'{}' {}", key.escape_ascii(), difference.words()));
        }
    }

    pub(super) const fn records(&self) -> u64 {
        self.same + self.differences()
    }

    const fn differences(&self) -> u64 {
        self.only_source + self.only_target + self.values + self.expiries
    }

    /// The first differences, one a line.
    pub(super) fn described(&self) -> &[String] {
        &self.described
    }

    /// Fails if there is a difference.
    pub(super) fn outcome(&self) -> Result<(), Failure> {
        let Compared { same, only_source, only_target, values, expiries, .. } = self;
        if self.differences() == 0 {
            return Ok(());
        }
        Err(Failure::Failed(format!(
            "the sides differ: {only_source} records are only in the source, {only_target} only in the target, {values} have another \
             value, {expiries} expire at another time; {same} are the same"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_and_the_first_are_described() {
        let mut compared = Compared { same: 3, ..Compared::default() };
        assert!(compared.outcome().is_ok());
        compared.differs(b"a\xff", Difference::Value);
        for _ in 0..DESCRIBED_MAX {
            compared.differs(b"b", Difference::OnlyTarget);
        }
        assert_eq!(compared.records(), 14);
        assert_eq!(compared.described().len(), DESCRIBED_MAX);
        assert_eq!(compared.described()[0], "'a\\xff' has another value in the target");
        let Err(Failure::Failed(said)) = compared.outcome() else { panic!("they differ") };
        assert!(said.contains("10 only in the target, 1 have another value"), "{said}");
    }

    #[test]
    fn moments_are_the_same_within_what_clocks_differ() {
        let seen = |expires_ms| Seen { key: Vec::new(), expires_ms, value: None };
        let same = |from, to| expire_together(&seen(from), &seen(to));
        assert!(same(0, 0) && same(1_000_000, 1_060_000) && same(1_060_000, 1_000_000));
        assert!(!same(0, 1) && !same(1, 0) && !same(1_000_000, 1_060_001));
        assert!(seen(1).is_about_to_expire(0) && !seen(0).is_about_to_expire(0));
        assert!(!seen(60_001).is_about_to_expire(0) && seen(60_000).is_about_to_expire(0));
    }
}
