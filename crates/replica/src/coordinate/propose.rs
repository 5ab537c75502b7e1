use std::rc::Rc;

use ladoga_cluster::ProposalError;
use ladoga_local::store::Store;
use ladoga_model::Version;

use super::plan::Plan;
use super::proposing::{Promise, ProposalPhase, Proposing};
use super::spread::Targets;
use super::write::WrittenCell;

/// One ballot, for as long as its coordinator goes on with it.
///
/// Protocol: `begin promised (release | accept)?`. Dropped before it says what follows, its promises are void.
pub(super) struct Proposal<S: Store>(Rc<Proposing<S>>);

impl<S: Store> Proposal<S> {
    /// Asks all replicas to promise that they take nothing older.
    pub(super) fn begin(plan: &Plan<S>, ballot: Version) -> Proposal<S> {
        Proposal(Proposing::begin(plan, ballot))
    }

    /// Waits until a majority has promised, or it is known that none will.
    pub(super) async fn promised(&self) -> Result<Promise, ProposalError> {
        self.0.promised.take().await
    }

    /// Whether a majority promised of which a replica has lost its disk since, or this node was found not to have all. Nothing is
    /// decided by that: another ballot can be.
    pub(super) fn is_taken_back(&self) -> bool {
        self.0.state.borrow().is_taken_back
    }

    /// Whether its time is over: what is not accepted by now may be waited for in vain.
    pub(super) fn is_late(&self) -> bool {
        self.0.state.borrow().is_late
    }

    /// Leaves the key as it is.
    pub(super) fn release(self) {
        drop(self);
    }

    /// Puts a cell in the place of the newest one, and waits until a majority has it. A large value is at the replicas already.
    pub(super) async fn accept(self, cell: WrittenCell, targets: Targets<S>) -> Result<(), ProposalError> {
        {
            let mut state = self.0.state.borrow_mut();
            state.phase = ProposalPhase::Accepting;
            state.cell = Some(cell);
            state.targets = targets.into_iter().map(Some).collect();
        }
        self.0.step(|core, step| core.accept(step));
        self.0.decision.take().await
    }
}

impl<S: Store> Drop for Proposal<S> {
    fn drop(&mut self) {
        let was = {
            let mut state = self.0.state.borrow_mut();
            let was = state.phase;
            if was != ProposalPhase::Accepting {
                state.phase = ProposalPhase::Abandoned;
            }
            was
        };
        // (One that nobody promised yet is released with its majority.)
        if was == ProposalPhase::Promised {
            self.0.step(|core, step| core.release(step));
        }
    }
}
