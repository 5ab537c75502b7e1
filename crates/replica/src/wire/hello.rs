//! The first frame in each direction.
//!
//! ```text
//! hello := version u16, node u16, wall_ms u64, statement, epoch u64, count u16, (url, weight u16) × count
//! url   := length u16, bytes
//! ```

use bytes::{BufMut, BytesMut};
use ladoga_cluster::{NODES_MAX, Node, NodeId, NodeList, Statement};

use super::frame::{FrameError, PROTOCOL_VERSION};
use super::message::put_short;
use super::parts::{put_statement, statement};
use super::reader::Reader;

/// Who a node is, and which nodes it was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Of the protocol.
    pub version: u16,
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
        out.put_u16_le(self.version);
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
        let version = reader.u16()?;
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
        Ok(Hello { version, node, wall_ms, statement, nodes })
    }

    /// The URL of the node that speaks.
    pub fn url(&self) -> &str {
        self.nodes.name(NodeId(self.node))
    }

    /// Why the sender of `theirs` and this node are not of one cluster; `None` if they are.
    pub fn difference(&self, theirs: &Hello) -> Option<String> {
        if theirs.version != PROTOCOL_VERSION {
            let found = theirs.version;
            return Some(format!("it speaks version {found} of the protocol, expected {PROTOCOL_VERSION}"));
        }
        if let Some(difference) = self.nodes.difference(&theirs.nodes) {
            return Some(format!("it was started with another list of nodes: {difference}"));
        }
        let is_same = self.node == theirs.node;
        is_same.then(|| format!("it says that it is {}, which is this node: see --advertise", self.url()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(node: u16, names: &[&str]) -> Hello {
        let nodes = NodeList::first(names.iter().copied()).expect("a list");
        Hello { version: PROTOCOL_VERSION, node, wall_ms: 5, statement: Statement::default(), nodes }
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
        let other = Hello { version: PROTOCOL_VERSION + 1, ..hello(1, &["a", "b"]) };
        let expected =
            format!("version {} of the protocol, expected {PROTOCOL_VERSION}", PROTOCOL_VERSION + 1);
        assert!(said(other).contains(&expected));
        assert!(said(hello(0, &["a", "b", "c"])).contains("--advertise"));
    }
}
