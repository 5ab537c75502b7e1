//! Bugs that the simulation plants in shipping code, and the one thing that it has to be told by it. Without the feature
//! `simulation` there is nothing of it in the program.
//!
//! `cargo test --workspace` builds one `ladoga-replica` for all, and the simulation wants the feature: so the tests of the node
//! run with it as well. It changes nothing for them. Each of the questions below is answered with no, unless `plant` was called
//! on the same thread, which only the simulation does; a noted version is kept for nobody; and the rest of the feature is
//! functions that only the simulation calls. Programs that are measured or shipped are built by `-p ladoga`, without it.

use std::ops::RangeInclusive;

use bytes::Bytes;
use ladoga_model::Version;

/// A bug that is planted, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "simulation"), expect(unreachable_pub, reason = "it is public for the simulation"))]
pub enum Bug {
    /// A replica says that it has a write, and has not.
    AckWithoutWriting,
    /// Tombstones go after a while, whoever has them.
    DropTombstonesByTime,
    /// A node that lost its disk answers as if it had not.
    VouchWhileRebuilding,
    /// A coordinator does not care that a replica has something newer.
    IgnoreNewerVersions,
    /// A write does not say for how many nodes it is.
    ForgetCopies,
    /// A node stamps and judges versions by its own wall clock, whatever the others' show.
    TrustOwnClock,
    /// A large value is written without knowing what is newest, and acknowledged although a replica has something newer.
    AcknowledgeStaleLarge,
    /// A write is given a newer version if it was not the newest, also if it was seen.
    RestampAfterExposure,
    /// A node with an older state of its disk does not care that its peers remember a newer one.
    IgnoreRegressions,
    /// What a node has promised to conditional writes is gone when it starts again.
    ForgottenFence,
    /// A promise is void after half a second to a second, whatever became of its cell.
    FenceTimesOut,
    /// Nobody ends the promises of a coordinator that is gone.
    LeavePromises,
    /// A repair and a hint are written although a promise is newer.
    RepairThroughFence,
    /// A node that lost its disk promises before it is whole.
    PromiseByLostDisk,
    /// A cell of a conditional write counts where something newer is, whatever was promised before that came.
    CountAnyOvertaken,
    /// What another node was asked to decide, and may have, is decided once more.
    DecideAgain,
    /// A client is told that its condition is not met, because of what too few replicas have.
    RefuseOnUnstableState,
    /// The answers of a node that is new in the list of nodes count at once.
    CountNewNodes,
    /// What a node knows of others goes by their places in the list of nodes, also if that changes.
    KnowByPlace,
    /// A write is acknowledged before it is on the disk.
    #[cfg(feature = "simulation")]
    NeverSync,
    /// What expires is not compared: a node that lacks it does not find out.
    #[cfg(feature = "simulation")]
    ExpiryNotInTrees,
}

/// A cell of a conditional write that counts where it is not.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "simulation"),
    expect(unreachable_pub, dead_code, reason = "it is public for the simulation, and read by it")
)]
pub struct OvertakenCell {
    /// Its version.
    pub version: Version,
    /// The xxh3 of its key.
    pub key_hash: u64,
    /// Its value, if that is in memory.
    pub value: Option<Bytes>,
}

#[cfg(feature = "simulation")]
mod simulation {
    use std::cell::{Cell, RefCell};
    use std::ops::RangeInclusive;

    use super::{Bug, OvertakenCell, Version};

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static COUNT: Cell<u64> = const { Cell::new(0) };
        static LAST_VERSION: Cell<Option<Version>> = const { Cell::new(None) };
        static LAST_TIME_MS: RefCell<Option<RangeInclusive<u64>>> = const { RefCell::new(None) };
        static GIVEN_UP: RefCell<Vec<Version>> = const { RefCell::new(Vec::new()) };
        static OVERTAKEN: RefCell<Vec<OvertakenCell>> = const { RefCell::new(Vec::new()) };
        static LET_THROUGH: RefCell<Vec<(u64, Version)>> = const { RefCell::new(Vec::new()) };
    }

    /// Plants a bug in all nodes of this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
        COUNT.set(0);
        GIVEN_UP.take();
        OVERTAKEN.take();
        LET_THROUGH.take();
    }

    /// Whether this bug is planted.
    pub(super) fn has(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Whether this bug is planted and strikes now: each seventh time that it is asked for.
    pub(super) fn strikes(bug: Bug) -> bool {
        if !has(bug) {
            return false;
        }
        COUNT.set(COUNT.get() + 1);
        COUNT.get().is_multiple_of(7)
    }

    /// This version of a key is a repair or a hint.
    pub(super) fn let_through(key_hash: u64, version: Version) {
        LET_THROUGH.with_borrow_mut(|versions| versions.push((key_hash, version)));
    }

    /// Whether it is one.
    pub(super) fn is_let_through(key_hash: u64, version: Version) -> bool {
        LET_THROUGH.with_borrow(|versions| versions.contains(&(key_hash, version)))
    }

    /// The answer that is about to be given is about this version.
    pub(super) fn note_version(version: Option<Version>) {
        LAST_VERSION.set(version);
    }

    /// The answer that is about to be given is as of a time between these, by which it is decided what has expired; none if that did
    /// not matter, or nobody but this node says so.
    pub(super) fn note_time(time_ms: Option<RangeInclusive<u64>>) {
        LAST_TIME_MS.set(time_ms);
    }

    /// What was noted.
    pub(super) fn noted_time() -> Option<RangeInclusive<u64>> {
        LAST_TIME_MS.with_borrow(Clone::clone)
    }

    /// The time that the last answer on this thread was as of.
    pub fn last_time_ms() -> Option<RangeInclusive<u64>> {
        LAST_TIME_MS.take()
    }

    /// A write is written again: with a quorum, nobody has seen this version of it or will.
    pub(super) fn note_given_up(version: Version) {
        GIVEN_UP.with_borrow_mut(|given_up| given_up.push(version));
    }

    /// The versions that were given up on this thread since this was asked the last time.
    pub fn given_up() -> Vec<Version> {
        GIVEN_UP.take()
    }

    /// A replica counts a cell that it does not write, having something newer.
    pub(super) fn note_overtaken(overtaken: OvertakenCell) {
        OVERTAKEN.with_borrow_mut(|noted| noted.push(overtaken));
    }

    /// The cells that were overtaken on this thread since this was asked the last time.
    pub fn overtaken() -> Vec<OvertakenCell> {
        OVERTAKEN.take()
    }

    /// The version that the last answer on this thread was about: of a value, of a deletion, or none.
    pub fn last_version() -> Option<Version> {
        LAST_VERSION.take()
    }
}

#[cfg(not(feature = "simulation"))]
mod simulation {
    use std::ops::RangeInclusive;

    use super::{Bug, OvertakenCell, Version};

    pub(super) const fn has(_: Bug) -> bool {
        false
    }

    pub(super) const fn strikes(_: Bug) -> bool {
        false
    }

    pub(super) const fn let_through(_: u64, _: Version) {}

    pub(super) const fn is_let_through(_: u64, _: Version) -> bool {
        false
    }

    pub(super) const fn note_version(_: Option<Version>) {}

    pub(super) fn note_time(_: Option<RangeInclusive<u64>>) {}

    pub(super) const fn noted_time() -> Option<RangeInclusive<u64>> {
        None
    }

    pub(super) const fn note_given_up(_: Version) {}

    pub(super) fn note_overtaken(_: OvertakenCell) {}
}

#[cfg(feature = "simulation")]
pub use simulation::{given_up, last_time_ms, last_version, overtaken, plant};

/// Whether this bug is planted.
#[inline]
pub(crate) fn has(bug: Bug) -> bool {
    simulation::has(bug)
}

/// Whether this bug is planted, and strikes now.
#[inline]
pub(crate) fn strikes(bug: Bug) -> bool {
    simulation::strikes(bug)
}

/// This version of a key, by its hash, is a repair or a hint: a promise does not keep it out, if that bug is planted.
#[inline]
pub(crate) fn let_through(key_hash: u64, version: Version) {
    simulation::let_through(key_hash, version);
}

/// Whether that is so of a version.
#[inline]
pub(crate) fn is_let_through(key_hash: u64, version: Version) -> bool {
    simulation::is_let_through(key_hash, version)
}

/// The answer that is given now is about this version.
#[inline]
pub(crate) fn note_version(version: Option<Version>) {
    simulation::note_version(version);
}

/// What has expired is decided by a time between these; none if that does not matter, or too few peers were heard.
#[inline]
pub(crate) fn note_time(time_ms: Option<RangeInclusive<u64>>) {
    simulation::note_time(time_ms);
}

/// The time that was noted last.
#[inline]
pub(crate) fn noted_time() -> Option<RangeInclusive<u64>> {
    simulation::noted_time()
}

/// A write with a quorum is written again, and its version until now was not seen.
#[inline]
pub(crate) fn note_given_up(version: Version) {
    simulation::note_given_up(version);
}

/// A cell of a conditional write counts here, and is not written: something newer came before it.
#[inline]
pub(crate) fn note_overtaken(overtaken: OvertakenCell) {
    simulation::note_overtaken(overtaken);
}
