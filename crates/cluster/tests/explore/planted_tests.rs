//! Bugs that are planted, and how many states it takes to find each.

use super::scenario::Bug;

pub(super) const BUGS: [Bug; 15] = [
    Bug::RestampsStale,
    Bug::ForgetsFences,
    Bug::FenceTimesOut,
    Bug::RepairsThroughFence,
    Bug::HintsThroughFence,
    Bug::RefusesUnstable,
    Bug::PromisesWhileRebuilding,
    Bug::TakesOverByRelease,
    Bug::HoldsOneFence,
    Bug::AcceptsAnythingLate,
    Bug::TrustsArrival,
    Bug::CountsPassedOver,
    Bug::ForgetsDecidedOn,
    Bug::RemembersIfAccepted,
    Bug::AcceptsForLostPromise,
];
