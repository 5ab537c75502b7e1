//! Three of our own nodes as a cluster, all on this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::free_addresses;
use super::node::Node;
use crate::client::get_json;
use crate::context::Context;
use crate::process::cpu_of;
use crate::stop::{OrFail, Outcome, Stop, failed};

pub(crate) const NODES: usize = 3;
const FSYNC: &str = "everysec";
const MEMORY: &str = "512MiB";
/// For the nodes to find each other, or for a repair to end.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Cluster<'a> {
    context: &'a Context,
    folder: PathBuf,
    addresses: [SocketAddr; NODES],
    /// `None`: it was killed.
    nodes: [Option<Node>; NODES],
}

impl<'a> Cluster<'a> {
    /// Three nodes without data that have found each other.
    pub(crate) fn start(context: &'a Context) -> Outcome<Self> {
        let folder = context.scratch.fresh("cluster")?;
        let mut cluster =
            Self { context, folder, addresses: free_addresses()?, nodes: [const { None }; NODES] };
        (0..NODES).try_for_each(|index| cluster.restart(index))?;
        cluster.wait_until("has all nodes up", |cluster| {
            let all = (0..NODES).map(|index| cluster.document(index));
            Ok(all.collect::<Outcome<Vec<_>>>()?.iter().all(is_complete))
        })?;
        Ok(cluster)
    }

    pub(crate) fn address(&self, index: usize) -> SocketAddr {
        self.addresses[index]
    }

    /// The command line of one of them.
    pub(crate) fn line(&self) -> String {
        self.nodes.iter().flatten().next().map_or_else(String::new, |node| node.process.line.clone())
    }

    /// The CPU time of all that live.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        self.nodes.iter().flatten().map(|node| cpu_of(node.process.pid())).sum()
    }

    pub(crate) fn freeze(&self, index: usize) -> Outcome {
        self.node(index)?.process.freeze()
    }

    pub(crate) fn thaw(&self, index: usize) -> Outcome {
        self.node(index)?.process.thaw()
    }

    pub(crate) fn kill(&mut self, index: usize) -> Outcome {
        self.nodes[index].take().map_or(Ok(()), Node::kill)
    }

    /// Removes the data of a killed node.
    pub(crate) fn erase(&self, index: usize) -> Outcome {
        let data = self.node_folder(index).join("data");
        std::fs::remove_dir_all(&data).or_fail(|| format!("cannot remove {}", data.display()))
    }

    /// Starts a node that was killed, or that never ran.
    pub(crate) fn restart(&mut self, index: usize) -> Outcome {
        let folder = self.node_folder(index);
        std::fs::create_dir_all(&folder).or_fail(|| format!("cannot create {}", folder.display()))?;
        let mut settings = self.context.settings(&folder, FSYNC, MEMORY)?;
        settings.address = Some(self.addresses[index]);
        settings.cluster = &self.addresses;
        self.nodes[index] = Some(Node::start(&settings)?);
        Ok(())
    }

    /// Waits until nothing is left to hand over or to repair, and no flush or compaction runs.
    pub(crate) fn settle(&self) -> Outcome {
        if self.context.scale.smoke {
            return Ok(());
        }
        self.wait_until("has nothing left to repair", |cluster| {
            let all = (0..NODES).map(|index| cluster.document(index)).collect::<Outcome<Vec<_>>>()?;
            Ok(all.iter().all(|document| is_complete(document) && hints_waiting(document) == 0))
        })?;
        self.nodes.iter().flatten().try_for_each(|node| node.settle(&self.context.scale))
    }

    /// Writes that this node keeps for others.
    pub(crate) fn hints_waiting(&self, index: usize) -> Outcome<u64> {
        Ok(hints_waiting(&self.document(index)?))
    }

    /// Cells that this node got by comparing trees, since it started.
    pub(crate) fn repaired(&self, index: usize) -> Outcome<u64> {
        Ok(self.document(index)?["repair"]["copied_cells_total"].as_u64().unwrap_or(0))
    }

    pub(crate) fn stop(self) -> Outcome {
        for node in self.nodes.into_iter().flatten() {
            node.stop()?;
        }
        self.context.scratch.remove("cluster");
        Ok(())
    }

    fn node(&self, index: usize) -> Outcome<&Node> {
        self.nodes[index].as_ref().ok_or_else(|| Stop::Failed(format!("node {index} was killed")))
    }

    fn node_folder(&self, index: usize) -> PathBuf {
        self.folder.join(format!("node-{index}"))
    }

    fn document(&self, index: usize) -> Outcome<Value> {
        get_json(self.addresses[index], "/v0/cluster")
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Self) -> Outcome<bool>) -> Outcome {
        let started = Instant::now();
        while !is_so(self)? {
            if started.elapsed() > PATIENCE {
                return failed(format!("no node {what} after {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// Whether a node sees all others, has all its data, and takes requests.
fn is_complete(document: &Value) -> bool {
    let nodes = document["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let state = &document["replica_state"];
    nodes.len() == NODES
        && nodes.iter().all(|node| node["state"] == "up" || node["state"] == "self")
        && state["complete"] == true
        && state["may_coordinate"] == true
}

fn hints_waiting(document: &Value) -> u64 {
    let nodes = document["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter_map(|node| node["hints_waiting"].as_u64()).sum()
}
