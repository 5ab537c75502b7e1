//! What a request takes of the memory for values.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ladoga_runtime::{OverCapacity, Permit, Taken};

use super::held::HeldPermits;
use super::transaction_room::{NoRoom, TransactionRoom};

/// The memory of one request: for its own bytes, and for values that it reads. It is one holder of what there is, however often it takes
/// more: otherwise it would wait for itself.
pub(super) struct RequestRoom {
    held: Rc<HeldPermits>,
    permit: RefCell<Option<Rc<Permit>>>,
    held_bytes: Cell<u64>,
    /// How many of these are in use.
    used_bytes: Cell<u64>,
}

/// A part of it, which can be used for something else once this is dropped.
pub(super) struct RoomPart {
    room: Rc<RequestRoom>,
    bytes: u64,
}

impl RequestRoom {
    /// One that has nothing.
    pub(super) fn new(held: &Rc<HeldPermits>) -> Rc<RequestRoom> {
        RequestRoom::of_transaction(held, TransactionRoom::default())
    }

    /// That of `EXEC`, with what the transaction has.
    pub(super) fn of_transaction(held: &Rc<HeldPermits>, room: TransactionRoom) -> Rc<RequestRoom> {
        let (permit, bytes) = room.into_held();
        Rc::new(RequestRoom {
            held: Rc::clone(held),
            permit: RefCell::new(permit),
            held_bytes: Cell::new(bytes),
            used_bytes: Cell::new(bytes),
        })
    }

    /// Gives back what it has, of which nothing is in use any more.
    pub(super) fn give_back(&self) {
        self.permit.take();
        self.held_bytes.set(0);
        self.used_bytes.set(0);
    }

    pub(super) const fn held_bytes(&self) -> u64 {
        self.held_bytes.get()
    }

    /// The request itself has so many bytes.
    pub(super) async fn hold_request(&self, bytes: u64) -> Result<(), OverCapacity> {
        self.used_bytes.set(bytes);
        self.hold(bytes).await
    }

    /// Takes so much for a value, once others have given it back if they have to.
    pub(super) async fn take(self: &Rc<Self>, bytes: u64) -> Result<RoomPart, OverCapacity> {
        let part = self.part(bytes);
        self.hold(self.used_bytes.get()).await?;
        Ok(part)
    }

    /// The same for a transaction, at once and without anybody giving way. `check` tells whether it can ever have so much; a single value
    /// it can, if nobody else has anything.
    pub(super) fn take_if_room(
        self: &Rc<Self>,
        bytes: u64,
        check: impl Fn(u64) -> Result<(), NoRoom>,
    ) -> Result<RoomPart, NoRoom> {
        let before_bytes = self.used_bytes.get();
        if before_bytes > 0 {
            check(before_bytes + bytes)?;
        }
        let part = self.part(bytes);
        self.hold_if_room().map_err(|full| check(bytes).err().unwrap_or(NoRoom::Now(full)))?;
        Ok(part)
    }

    fn hold_if_room(&self) -> Result<(), OverCapacity> {
        let missing_bytes = self.used_bytes.get().saturating_sub(self.held_bytes.get());
        if missing_bytes > 0 {
            let mut permit = self.permit.borrow_mut();
            match &*permit {
                Some(permit) => permit.grow_if_room(missing_bytes)?,
                None => *permit = Some(self.held.enter_if_room(missing_bytes)?),
            }
            self.held_bytes.set(self.used_bytes.get());
        }
        Ok(())
    }

    fn part(self: &Rc<Self>, bytes: u64) -> RoomPart {
        self.used_bytes.set(self.used_bytes.get() + bytes);
        RoomPart { room: Rc::clone(self), bytes }
    }

    async fn hold(&self, bytes: u64) -> Result<(), OverCapacity> {
        let before = self.permit.borrow().clone();
        if let Some(before) = before {
            // It may have asked for something that it does not have yet.
            before.granted().await;
        }
        let missing_bytes = bytes.saturating_sub(self.held_bytes.get());
        if missing_bytes == 0 {
            return Ok(());
        }
        let permit = self.permit.borrow().clone();
        let permit = match permit {
            Some(permit) => {
                permit.grow(missing_bytes)?;
                permit
            }
            None => {
                let permit = self.held.enter(&self.held.bodies, missing_bytes, Taken::Value)?;
                self.permit.replace(Some(Rc::clone(&permit)));
                permit
            }
        };
        self.held_bytes.set(bytes);
        permit.granted().await;
        Ok(())
    }
}

impl Drop for RoomPart {
    fn drop(&mut self) {
        // It may have been given back as a whole.
        self.room.used_bytes.set(self.room.used_bytes.get().saturating_sub(self.bytes));
    }
}
