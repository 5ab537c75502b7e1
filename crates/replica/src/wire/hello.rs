//! The first frame in each direction.
//!
//! ```text
//! hello := versions u16, node u16, wall_ms u64, statement, epoch u64, count u16, (url, weight u16) × count
//! url   := length u16, bytes
//! ```
//!
//! `versions` is the newest version of the protocol that the node speaks, and 256 times the oldest one, if that is another. Two nodes
//! speak the newest version that both know. A newer version may append to a hello, and changes nothing of what stands here: so a
//! node leaves out what it does not know.

use std::fmt;

use bytes::{BufMut, BytesMut};
use ladoga_cluster::{NODES_MAX, Node, NodeId, NodeList, Statement};

use super::frame::{FrameError, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use super::message::put_short;
use super::parts::{put_statement, statement};
use super::reader::Reader;

/// The versions of the protocol that a node speaks, from the oldest one to the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest one.
    pub oldest: u8,
    /// The newest one.
    pub newest: u8,
}

impl Versions {
    /// Those of this node.
    pub const OWN: Versions = Versions { oldest: PROTOCOL_VERSION_MIN, newest: PROTOCOL_VERSION };

    /// The newest version that both know.
    pub fn common(self, other: Versions) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    const fn to_number(self) -> u16 {
        let oldest = if self.oldest == self.newest { 0 } else { self.oldest };
        u16::from_le_bytes([self.newest, oldest])
    }

    /// `None` if the oldest one is not older than the newest one.
    fn of_number(number: u16) -> Option<Versions> {
        let [newest, oldest] = number.to_le_bytes();
        match oldest {
            0 => Some(Versions { oldest: newest, newest }),
            oldest => (oldest < newest).then_some(Versions { oldest, newest }),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Versions { oldest, newest } = self;
        if oldest == newest {
            write!(f, "version {newest} of the protocol")
        } else {
            write!(f, "versions {oldest} to {newest} of the protocol")
        }
    }
}

/// Who a node is, and which nodes it was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Of the protocol.
    pub versions: Versions,
    /// Which node of the list speaks.
    pub node: u16,
    /// What its clock shows, in milliseconds since 1970.
    pub wall_ms: u64,
    /// Its statement.
    pub statement: Statement,
    /// All nodes.
    pub nodes: NodeList,
}

impl Hello {
    pub(super) fn put(&self, out: &mut BytesMut) {
        out.put_u16_le(self.versions.to_number());
        out.put_u16_le(self.node);
        out.put_u64_le(self.wall_ms);
        put_statement(out, &self.statement);
        out.put_u64_le(self.nodes.epoch());
        out.put_u16_le(self.nodes.len() as u16);
        for (_, node) in self.nodes.iter() {
            put_short(out, node.name.as_bytes());
            out.put_u16_le(node.weight);
        }
    }

    pub(super) fn take(reader: &mut Reader) -> Result<Hello, FrameError> {
        let versions = Versions::of_number(reader.u16()?)
            .ok_or_else(|| reader.wrong("an oldest version that is older than the newest was expected"))?;
        let node = reader.u16()?;
        let wall_ms = reader.u64()?;
        let statement = statement(reader)?;
        let epoch = reader.u64()?;
        let count = usize::from(reader.u16()?);
        if count > NODES_MAX || usize::from(node) >= count {
            return Err(reader.wrong("a list of 1 to 64 nodes was expected, and a number in it"));
        }
        let nodes = (0..count).map(|_| Ok(Node { name: reader.line()?, weight: reader.u16()? }));
        let nodes = nodes.collect::<Result<Vec<_>, FrameError>>()?;
        let nodes =
            NodeList::at(epoch, nodes).map_err(|_| reader.wrong("nodes that differ were expected"))?;
        if versions.newest > PROTOCOL_VERSION {
            reader.skip_rest();
        }
        Ok(Hello { versions, node, wall_ms, statement, nodes })
    }

    /// The name of the node that speaks, in its list.
    pub fn name(&self) -> &str {
        self.nodes.name(NodeId(self.node))
    }

    /// Why the sender of `theirs` and this node are not of one cluster; `None` if they are.
    pub fn difference(&self, theirs: &Hello) -> Option<String> {
        if self.versions.common(theirs.versions).is_none() {
            return Some(format!(
                "it speaks {}, expected {}: update one release at a time",
                theirs.versions, self.versions
            ));
        }
        if let Some(difference) = self.nodes.difference(&theirs.nodes) {
            return Some(format!("it was started with another list of nodes: {difference}"));
        }
        let is_same = self.node == theirs.node;
        is_same.then(|| format!("it says that it is {}, which is this node: see --advertise", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Frame, Request};

    fn hello(node: u16, names: &[&str]) -> Hello {
        let nodes = NodeList::first(names.iter().copied()).expect("a list");
        Hello { versions: Versions::OWN, node, wall_ms: 5, statement: Statement::default(), nodes }
    }

    #[test]
    fn nodes_of_one_list_are_of_one_cluster() {
        assert_eq!(hello(0, &["a", "b"]).difference(&hello(1, &["b", "a"])), None);
    }

    #[test]
    fn a_difference_is_named() {
        let ours = hello(0, &["a", "b", "c"]);
        let said = |theirs: Hello| ours.difference(&theirs).expect("a difference");
        let text = said(hello(1, &["a", "b", "d"]));
        assert!(text.contains("lacks c") && text.contains('d'), "{text}");
        let next = PROTOCOL_VERSION + 1;
        let other = Hello { versions: Versions { oldest: next, newest: next }, ..hello(1, &["a", "b", "c"]) };
        let expected = format!("version {next} of the protocol, expected {}", ours.versions);
        assert!(said(other).contains(&expected));
        assert!(said(hello(0, &["a", "b", "c"])).contains("--advertise"));
    }
    #[test]
    fn two_nodes_speak_the_newest_version_that_both_know() {
        let versions = |oldest, newest| Versions { oldest, newest };
        for (one, other, common) in [
            (versions(7, 7), versions(7, 7), Some(7)),
            (versions(7, 7), versions(7, 8), Some(7)),
            (versions(7, 8), versions(8, 9), Some(8)),
            (versions(7, 9), versions(8, 8), Some(8)),
            (versions(7, 7), versions(8, 9), None),
        ] {
            assert_eq!((one.common(other), other.common(one)), (common, common), "{one} and {other}");
        }
    }

    #[test]
    fn versions_are_one_number() {
        for (versions, number) in [
            // As nodes said it that spoke one version only.
            (Versions { oldest: 7, newest: 7 }, 7),
            (Versions { oldest: 7, newest: 8 }, 0x0708),
        ] {
            assert_eq!((versions.to_number(), Versions::of_number(number)), (number, Some(versions)));
        }
        assert_eq!([Versions::of_number(0x0707), Versions::of_number(0x0807)], [None, None]);
    }

    #[test]
    fn a_newer_node_may_say_more_than_is_understood() {
        let newer = Versions { newest: PROTOCOL_VERSION + 1, ..Versions::OWN };
        let greeted = |versions, more: &[u8]| {
            let mut body = BytesMut::new();
            let said = Hello { versions, ..hello(1, &["a", "b"]) };
            said.put(&mut body);
            body.put_slice(more);
            let frame = Frame { request: 0, kind: 1, body: body.freeze() };
            (said, Request::of(&frame))
        };
        let (said, read) = greeted(newer, b"and more");
        assert_eq!(read, Ok(Request::Hello(said.clone())));
        assert_eq!(hello(0, &["a", "b"]).difference(&said), None);
        assert!(greeted(Versions::OWN, b"and more").1.is_err());
    }
}
