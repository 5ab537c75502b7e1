//! Values that do not fit into memory, in the order of steps that they have in the node.
//!
//! Sending one again would take all of it, so there is no second attempt with a newer version: what is newest is asked for
//! before. A hint has no value: who delivers it reads the key from all replicas, which repairs those that lack it.

use ladoga_cluster::{Content, NodeId, ReadCore};
use ladoga_model::{Replicas, Version};

use super::{Process, REQUEST_MS, Timer};
use crate::Bug;
use crate::keep::KeptHint;
use crate::operation::{ClientRequest, Core, Operation, Reads, Told, Wish};
use crate::process::Effect;

impl Process {
    /// A large value is to be written: asks for what is newest.
    pub(super) fn begin_large(&mut self, request: ClientRequest, nodes: &[NodeId]) {
        let number = request.number;
        self.begin_read(request, nodes, Reads::BeforeWrite);
        if self.replica.bug == Some(Bug::AcknowledgeStaleLarge) {
            self.write_large(number, None, false);
        }
    }

    /// What is newest is known, or cannot be: writes.
    pub(super) fn write_large(&mut self, number: u64, newest: Option<Version>, is_quorum: bool) {
        let Some(Operation { request, nodes, attempts, .. }) = self.operations.remove(&number) else {
            return;
        };
        if let Some(newest) = newest
            && self.replica.observe(newest.timestamp).is_err()
        {
            return self.effects.push(Effect::Tell(number, Told::Failure));
        }
        self.begin_write(request, &nodes, attempts + 1);
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.asked_before = is_quorum;
        }
    }

    /// A replica has something newer than a large value that a quorum has. It came at the same time, where what was newest
    /// had been asked for; else the write may have lost to one that came before it.
    pub(super) fn large_is_stale(&mut self, number: u64) {
        let Some(operation) = self.operations.remove(&number) else { return };
        let Core::Write { cell, .. } = &operation.core else { return };
        let ClientRequest { key, replicas, floor, .. } = &operation.request;
        if operation.asked_before || self.replica.bug == Some(Bug::AcknowledgeStaleLarge) {
            self.replica.checker.borrow_mut().acknowledged(key, *replicas, cell.stamp.version, *floor);
            self.effects.push(Effect::Tell(number, Told::Success));
        } else {
            self.effects.push(Effect::Tell(number, Told::Failure));
        }
    }

    /// Delivers a hint without a value.
    pub(super) fn refresh(&mut self, peer: NodeId, hint_number: u64, hint: KeptHint) {
        let KeptHint { key, cell } = hint;
        let from = if cell.stamp.copies == 0 { self.nodes as u32 } else { u32::from(cell.stamp.copies) };
        let nodes = self.replica.placement.replicas(&key, from as usize).to_vec();
        let number = self.next;
        self.next += 1;
        let replicas = Replicas { ack: from, from };
        let request = ClientRequest { number, key, wish: Wish::Get, replicas, floor: Version::ZERO };
        self.begin_read(request, &nodes, Reads::ForHint { peer, number: hint_number });
    }

    pub(super) fn begin_read(&mut self, request: ClientRequest, nodes: &[NodeId], reads: Reads) {
        let number = request.number;
        let core = Core::Read(ReadCore::new(request.replicas), reads);
        let operation = Operation { request, nodes: nodes.to_vec(), core, attempts: 0, asked_before: false };
        self.operations.insert(number, operation);
        self.effects.push(Effect::Timer(REQUEST_MS, Timer::Deadline(number, 0)));
        self.ask_all(number);
    }

    /// The hint as it is kept: that of a large value without it.
    pub(super) fn hint_of(hint: KeptHint) -> KeptHint {
        let KeptHint { key, mut cell } = hint;
        if matches!(&cell.content, Content::Value(value) if crate::is_large(value)) {
            cell.content = Content::Digest;
        }
        KeptHint { key, cell }
    }
}
