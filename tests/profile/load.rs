use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::support::{Connection, Node, value};

/// Keys that the load writes and reads.
const KEYS: u64 = 500;

/// Clients that keep a node busy until this is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn on(node: &Node) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..4).map(|client| {
            let (connection, stop) = (node.connect(), Arc::clone(&stop));
            thread::spawn(move || work(connection, client, &stop))
        });
        let clients = clients.collect();
        Load { stop, clients }
    }
}

fn work(mut connection: Connection, client: u64, stop: &AtomicBool) {
    for index in (0..KEYS).cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("key{client}-{index}");
        connection.put(&key, &value(index, 2_000));
        assert_eq!(connection.value(&key), Some(value(index, 2_000)));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let ended = client.join();
            assert!(ended.is_ok() || thread::panicking(), "a client failed while the node was profiled");
        }
    }
}
