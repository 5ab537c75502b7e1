//! What is explored: what clients ask for, what goes wrong beside it, and which bug is planted.

use ladoga_model::Replicas;

/// What a client asks for. Values that are written are numbers of which no two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write(u64),
    Delete,
    /// To write the second, if the first is there.
    CompareAndSet(Option<u64>, u64),
    Increment,
}

/// What is planted, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A write is written again if something newer was there, whether or not it was seen.
    RestampsStale,
    /// A replica that is restarted has forgotten what it promised.
    ForgetsFences,
    /// A promise ends after a while.
    FenceTimesOut,
    /// What a read repairs is written through a promise.
    RepairsThroughFence,
    /// The same for hints.
    HintsThroughFence,
    /// It is said that the condition does not hold, whoever has the cell for which it does not.
    RefusesUnstable,
    /// A replica promises while it is being rebuilt.
    PromisesWhileRebuilding,
    /// Who takes over for a coordinator that is gone takes its promises back, and writes nothing.
    TakesOverByRelease,
    /// A promise takes the place of those that were given before.
    HoldsOneFence,
    /// One that promises late is asked to accept, whatever it has.
    AcceptsAnythingLate,
    /// A replica that promised something newer says that a write was the newest, since it was when it came.
    TrustsArrival,
    /// A write is acknowledged although something conditional went over it.
    CountsPassedOver,
    /// Nobody remembers what a conditional write was decided on.
    ForgetsDecidedOn,
    /// Only those that accepted a conditional write do.
    RemembersIfAccepted,
    /// A replica that is whole again says that it had what it was given while it was being rebuilt.
    RemembersRebuilding,
    /// A cell is accepted by the promise of a disk that is lost.
    AcceptsForLostPromise,
    /// A replica had whatever a cell was decided on that it accepted, also if another one may go over that.
    TrustsAccepted,
    /// A replica says that a write was skipped by one cell that it accepted, whatever others were decided on.
    SkipsByOne,
    /// A cell counts as if it had come before the newer one that is there, whatever was promised before that came.
    CountsAnyOvertaken,
    /// A cell counts as if it had come before the newer one that is there, also if it was decided on what came after that one.
    CountsOvertakenBase,
}

/// How often what goes wrong goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Faults {
    /// A request to a replica arrives, and its answer is lost with the connection.
    pub(crate) lost_answers: usize,
    /// A write is admitted if nothing newer is there, and something newer arrives before it is durable.
    pub(crate) late_commits: usize,
    /// A client's request takes too long.
    pub(crate) deadlines: usize,
    /// The coordinator of a conditional write is gone, between two messages.
    pub(crate) crashes: usize,
    /// Who meets a promise that does not end takes over.
    pub(crate) take_overs: usize,
    /// A replica forgets what it had.
    pub(crate) restarts: usize,
    /// A replica loses what it has.
    pub(crate) lost_disks: usize,
}

/// Clients, each of which asks one thing after the other, through a coordinator of its own.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) replicas: Replicas,
    pub(crate) processes: Vec<Vec<Ask>>,
    /// What the clocks of the coordinators show at first.
    pub(crate) clocks: Vec<u64>,
    /// Only the first replica sends values with its first answer.
    pub(crate) digests: bool,
    /// Whether there are hints: what they bring, repairs bring as well.
    pub(crate) hints: bool,
    /// How often a conditional write is proposed.
    pub(crate) attempts: usize,
    pub(crate) bug: Option<Bug>,
    pub(crate) faults: Faults,
}
