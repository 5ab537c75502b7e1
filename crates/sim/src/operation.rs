//! One request of a client, as the node that coordinates it knows it.

use ladoga_cluster::{Cell, Content, NodeId, ReadCore, WriteCore};
use ladoga_model::{Replicas, Stamp, Version};

use crate::checker::Key;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    Put(Vec<u8>),
    Delete,
    Get,
}

/// A request of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    pub(crate) number: u64,
    pub(crate) key: Key,
    pub(crate) wish: Wish,
    pub(crate) replicas: Replicas,
    /// The newest version that a client knew of when it began.
    pub(crate) floor: Version,
}

/// What a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Success,
    Failure,
}

pub(crate) enum Core {
    Write { core: WriteCore, cell: Cell<Vec<u8>> },
    Read(ReadCore<Vec<u8>>, Reads),
}

/// What is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// The client that asked.
    ForClient,
    /// The version that a large value has to be after.
    BeforeWrite,
    /// A peer that lacks the value of a hint.
    ForHint { peer: NodeId, number: u64 },
}

pub(crate) struct Operation {
    pub(crate) request: ClientRequest,
    /// The nodes of the key, in the order of its preference list.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) core: Core,
    /// How often it took a newer version.
    pub(crate) attempts: u32,
    /// Of a large value: whether it is known what was newest before.
    pub(crate) asked_before: bool,
}

impl Operation {
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.request.wish, Wish::Put(value) if crate::is_large(value))
    }

    pub(crate) fn is_finished(&self) -> bool {
        match &self.core {
            Core::Write { core, .. } => core.is_finished() && core.is_decided(),
            Core::Read(core, _) => core.is_finished() && core.is_decided(),
        }
    }
}

/// The cell that a request writes.
pub(crate) fn cell_of(wish: &Wish, version: Version, replicas: Replicas, nodes: usize) -> Cell<Vec<u8>> {
    let content = match wish {
        Wish::Put(value) => Content::Value(value.clone()),
        Wish::Delete => Content::Tombstone,
        Wish::Get => panic!("a read writes nothing"),
    };
    let copies = if replicas.from as usize == nodes { 0 } else { replicas.from as u8 };
    Cell { stamp: Stamp { copies, ..Stamp::new(version) }, content }
}
