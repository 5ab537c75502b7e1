use std::fmt;

/// How many replicas answered, and why the others did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooFewReplicas {
    /// How many answered.
    pub acked: usize,
    /// How many had to.
    pub required: usize,
    /// How many were asked.
    pub asked: usize,
    /// Each node that did not, and why.
    pub failures: Vec<(String, String)>,
    /// Whether a write may have happened all the same.
    pub may_have_happened: bool,
}

impl fmt::Display for TooFewReplicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} replicas answered, expected {}", self.acked, self.asked, self.required)?;
        for (position, (node, why)) in self.failures.iter().enumerate() {
            let separator = if position == 0 { ": " } else { "; " };
            write!(f, "{separator}{node} {why}")?;
        }
        if self.may_have_happened {
            write!(f, "; the write may have happened")?;
        }
        Ok(())
    }
}

impl std::error::Error for TooFewReplicas {}
