//! What is measured.

use std::fmt;

/// With fewer samples a share of a tenth is off by a tenth of itself, as often as not.
const SAMPLES_ENOUGH: usize = 1_000;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Time on the CPU, in nanoseconds.
    Cpu,
    /// Memory asked for, in bytes.
    Alloc,
    /// Time spent waiting, in nanoseconds.
    Lock,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Cpu, Kind::Alloc, Kind::Lock];

    /// The name in URLs and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Alloc => "alloc",
            Kind::Lock => "lock",
        }
    }

    /// What a sample's weight counts: `nanoseconds` or `bytes`.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Cpu | Kind::Lock => "nanoseconds",
            Kind::Alloc => "bytes",
        }
    }

    /// A warning about a profile with so few samples; none if there are enough.
    pub fn warning(self, samples: usize) -> Option<String> {
        let remedy = match self {
            Kind::Cpu => "take it for longer, under load, or with a higher --hz",
            Kind::Alloc => "take it for longer, under load, or with a smaller --alloc-interval",
            Kind::Lock => "take it for longer, or under load",
        };
        let plural = if samples == 1 { "" } else { "s" };
        (samples < SAMPLES_ENOUGH)
            .then(|| format!("only {samples} sample{plural}: shares are rough; {remedy}"))
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Cpu => "CPU time",
            Kind::Alloc => "Allocated bytes",
            Kind::Lock => "Time waiting",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
