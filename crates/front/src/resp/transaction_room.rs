use std::rc::Rc;

use ladoga_runtime::{Gate, OverCapacity, Permit};

use super::held::HeldPermits;

/// So much is kept without being counted.
const UNCOUNTED_BYTES: u64 = 16 << 10;
/// So much is taken at a time, so that this need not happen with each command.
const STEP_BYTES: u64 = 4 << 10;

/// What a transaction keeps of the memory for values: at most as much as one client may have.
#[derive(Default)]
pub(super) struct TransactionRoom {
    bytes: u64,
    /// What the same transaction keeps elsewhere.
    beside_bytes: u64,
    held_bytes: u64,
    permit: Option<Rc<Permit>>,
}

/// Why a transaction cannot keep more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Others have what there is.
    Now(OverCapacity),
    /// It is too large, whatever others have.
    Ever(TooLarge),
}

/// A transaction would take more memory than one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the transaction would take {bytes} bytes of memory, and one takes at most {bytes_max} with the memory that the node has; make it \
     smaller, or give the node more with --memory"
)]
pub(super) struct TooLarge {
    bytes: u64,
    bytes_max: u64,
}

impl TransactionRoom {
    /// A second one of a transaction, for what its commands read and write.
    pub(super) fn beside(queued: &TransactionRoom) -> TransactionRoom {
        // It may have taken more than it needs. Without that, what can never fit would seem to be in the way of others.
        let beside_bytes = queued.bytes.max(queued.held_bytes);
        TransactionRoom { beside_bytes, ..TransactionRoom::default() }
    }

    /// It keeps so many bytes more, or as many as before if there is no room. Nobody gives way for it, and it does not wait, since it
    /// holds what others wait for.
    pub(super) fn hold(&mut self, bytes: u64, held: &HeldPermits) -> Result<(), NoRoom> {
        self.check(bytes, &held.bodies)?;
        let bytes = self.bytes + bytes;
        if bytes > self.held_bytes.max(UNCOUNTED_BYTES) {
            // More than one client may have would count as too much, while others wait.
            let bytes_max = held.bodies.address_max() - self.beside_bytes;
            self.take(bytes.next_multiple_of(STEP_BYTES).min(bytes_max), held)
                .or_else(|_| self.take(bytes, held))
                .map_err(NoRoom::Now)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Whether it can ever keep so many bytes more.
    pub(super) fn check(&self, bytes: u64, gate: &Gate) -> Result<(), NoRoom> {
        let (bytes, bytes_max) = (self.beside_bytes + self.bytes + bytes, gate.address_max());
        if bytes > bytes_max { Err(NoRoom::Ever(TooLarge { bytes, bytes_max })) } else { Ok(()) }
    }

    fn take(&mut self, bytes: u64, held: &HeldPermits) -> Result<(), OverCapacity> {
        match &self.permit {
            Some(permit) => permit.grow_if_room(bytes - self.held_bytes)?,
            None => self.permit = Some(held.enter_if_room(bytes)?),
        }
        self.held_bytes = bytes;
        Ok(())
    }

    /// What it has of the memory for values.
    pub(super) fn into_held(self) -> (Option<Rc<Permit>>, u64) {
        (self.permit, self.held_bytes)
    }
}
