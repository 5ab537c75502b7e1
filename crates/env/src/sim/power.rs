use super::rng::SimRng;
use crate::Rng;
use std::fmt;
use std::io;

/// What a power cut does to that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// No unsynced change survives.
    LoseAll,
    /// Every unsynced change survives, as if the system had just written everything back.
    KeepAll,
    /// Any part survives: writes whole, torn at sectors, or not at all, in any combination; of the changes to directories any
    /// part that keeps the order of those to the same name.
    Random,
}

/// Whether an error means that the simulated power was off, or had been since the file was opened.
pub fn is_power_off(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<PowerIsOff>())
}

pub(super) fn power_is_off() -> io::Error {
    io::Error::other(PowerIsOff)
}

#[derive(Debug)]
struct PowerIsOff;

impl fmt::Display for PowerIsOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("power is off")
    }
}

impl std::error::Error for PowerIsOff {}

/// What happens to one change in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Torn,
    Lost,
}

/// The fates of a sequence of changes. If each change was decided alone, a long sequence would hardly ever survive whole, or up
/// to one point, which is what real systems mostly do. So the pattern is drawn first.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fates {
    All(Fate),
    Prefix { kept: u64 },
    Each,
}

impl Fates {
    pub(super) fn throw(policy: PowerCut, changes: usize, rng: &SimRng) -> Self {
        match policy {
            PowerCut::LoseAll => Self::All(Fate::Lost),
            PowerCut::KeepAll => Self::All(Fate::Kept),
            PowerCut::Random => match rng.below(5) {
                0 => Self::All(Fate::Lost),
                1 => Self::All(Fate::Kept),
                2 | 3 => Self::Prefix { kept: rng.below(changes as u64 + 1) },
                _ => Self::Each,
            },
        }
    }

    pub(super) fn of(self, index: usize, rng: &SimRng) -> Fate {
        match self {
            Self::All(fate) => fate,
            Self::Prefix { kept } if (index as u64) < kept => Fate::Kept,
            Self::Prefix { kept } if index as u64 == kept => Fate::Torn,
            Self::Prefix { .. } => Fate::Lost,
            Self::Each => [Fate::Kept, Fate::Torn, Fate::Lost][rng.below(3) as usize],
        }
    }
}
