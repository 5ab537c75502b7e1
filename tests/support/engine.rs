//! On which engine the nodes of a test crate run. The crate `cassandra` runs tests of `tests/http` on a door to a real Cassandra.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ladoga_cassandra_nodes::{CommitLogSync, Installed, Nodes, Setup};

use super::{Launch, skip};

/// Tests of these modules need conditions that Cassandra decides about.
const DECIDED: [&str; 5] = ["batch::", "both_doors::", "conditional::", "expiry::", "increments::"];

/// The launch of a node on the engine of this test crate.
pub(crate) fn on_own_engine(launch: Launch) -> Launch {
    match one_node() {
        Some(nodes) => on_cassandra(launch, nodes, 1),
        None => launch,
    }
}

/// A door with a keyspace of its own, and this many copies of a key.
pub(crate) fn on_cassandra(launch: Launch, nodes: &str, copies: u32) -> Launch {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let keyspace = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("");
    let writes = if DECIDED.iter().any(|module| test.starts_with(module)) { "lwt" } else { "plain" };
    launch
        .flag("--engine", "cassandra")
        .flag("--cassandra-nodes", nodes)
        .flag("--cassandra-keyspace", &keyspace)
        .flag("--cassandra-replicas", &copies.to_string())
        .flag("--cassandra-writes", writes)
        .flag("--fsync", "everysec")
        .env("LADOGA_QUORUM_TIMEOUT_MS", "60000")
}

/// Whether a test, or the rest of it, is about what a door to Cassandra does otherwise, for this reason: `docs/cassandra.md` has the list.
pub(crate) fn differs_on_cassandra(why: &str) -> bool {
    let differs = one_node().is_some();
    if differs {
        eprintln!("not on Cassandra: {why}");
    }
    differs
}

/// Where the one node listens that all tests of the crate share; none in other crates, and if there is no Cassandra.
fn one_node() -> Option<&'static str> {
    static ONE: OnceLock<Option<(String, Nodes)>> = OnceLock::new();
    if env!("CARGO_CRATE_NAME") != "cassandra" {
        return None;
    }
    let one = ONE.get_or_init(|| {
        let nodes = cassandra(1, Setup::open(CommitLogSync::Periodic))?;
        Some((nodes.addresses(), nodes))
    });
    one.as_ref().map(|(addresses, _)| addresses.as_str())
}

/// Nodes of Cassandra; none, and a reason, if it cannot be had here.
pub(crate) fn cassandra(count: usize, setup: Setup<'_>) -> Option<Nodes> {
    static INSTALLED: OnceLock<Result<Installed, String>> = OnceLock::new();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory");
    match INSTALLED.get_or_init(|| Installed::find(&target.join("cassandra"))) {
        Ok(installed) => Some(Nodes::start(installed, count, setup).expect("nodes of Cassandra that start")),
        Err(reason) => {
            skip(&format!("no Cassandra: {reason}"));
            None
        }
    }
}
