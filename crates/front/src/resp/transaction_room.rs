use ladoga_runtime::{Address, Gate, OverCapacity, Permit};

/// So much is kept without being counted.
const UNCOUNTED_BYTES: u64 = 16 << 10;

/// What a transaction keeps of the memory for values.
#[derive(Default)]
pub(super) struct TransactionRoom {
    bytes: u64,
    held_bytes: u64,
    permit: Option<Permit>,
}

impl TransactionRoom {
    /// It keeps so many bytes more, or as many as before if there is no room. Nobody gives way for it, and it does not wait, since it
    /// holds what others wait for.
    pub(super) fn hold(&mut self, bytes: u64, gate: &Gate, address: Address) -> Result<(), OverCapacity> {
        let bytes = self.bytes + bytes;
        if bytes > self.held_bytes.max(UNCOUNTED_BYTES) {
            // Twice as much, so that this need not happen each time.
            self.take(2 * bytes, gate, address).or_else(|_| self.take(bytes, gate, address))?;
        }
        self.bytes = bytes;
        Ok(())
    }

    fn take(&mut self, bytes: u64, gate: &Gate, address: Address) -> Result<(), OverCapacity> {
        match &self.permit {
            Some(permit) => permit.grow_if_room(bytes - self.held_bytes)?,
            None => self.permit = Some(gate.enter_if_room(address, bytes)?),
        }
        self.held_bytes = bytes;
        Ok(())
    }

    /// What it may have to give back, if it keeps more than a little.
    pub(super) const fn permit(&self) -> Option<&Permit> {
        self.permit.as_ref()
    }
}
