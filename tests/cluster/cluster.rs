use crate::support::{Connection, Launch, Node, Response, entity, wait_until};

/// Nodes that were started with the same list.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
}

/// Launches that name each other, one a node.
pub(crate) fn launches(count: usize) -> Vec<Launch> {
    launches_at(count, |launch, _| launch)
}

/// The same, each at the place that `place` says.
pub(crate) fn launches_at(count: usize, place: impl Fn(Launch, usize) -> Launch) -> Vec<Launch> {
    let launches: Vec<Launch> = (0..count).map(|node| place(Launch::patient(), node)).collect();
    let urls = launches.iter().map(Launch::url).collect::<Vec<_>>().join(",");
    let with_list = |(node, launch): (usize, Launch)| {
        let launch = launch.flag("--cluster", &urls).flag("--memory", "32MiB");
        // The others begin with one event loop that serves, as is the default.
        let launch = if node % 2 == 0 { launch.flag("--threads", "2") } else { launch };
        // A machine that is busy with other tests is no frozen peer.
        let patience = [("PEER", "20000"), ("PEER_CONNECT", "20000"), ("QUORUM", "60000")];
        patience.into_iter().fold(launch, |launch, (name, timeout_ms)| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
        })
    };
    launches.into_iter().enumerate().map(with_list).collect()
}

impl Cluster {
    /// Starts so many nodes, and waits until each has reached each, and knows that it lost nothing.
    pub(crate) fn start(count: usize) -> Cluster {
        Cluster::launch(launches(count))
    }

    pub(crate) fn launch(launches: Vec<Launch>) -> Cluster {
        let mut nodes: Vec<Node> = launches.into_iter().map(Launch::spawn).collect();
        nodes.iter_mut().for_each(Node::wait_until_it_serves);
        let cluster = Cluster { nodes };
        cluster.wait_until_all_answer();
        for node in 0..cluster.nodes.len() {
            wait_until("a node that is whole", || cluster.report(node)["replica_state"]["complete"] == true);
        }
        cluster
    }

    /// What `/v0/cluster` says.
    pub(crate) fn report(&self, node: usize) -> serde_json::Value {
        let report = self.connect(node).request("GET", "/v0/cluster", None);
        assert_eq!(report.header("content-type"), Some("application/json"));
        serde_json::from_str(report.text()).expect("JSON")
    }

    /// Waits until requests that need every node succeed through every node.
    pub(crate) fn wait_until_all_answer(&self) {
        let all = format!("{0}/{0}", self.nodes.len());
        for node in 0..self.nodes.len() {
            wait_until("a request that needs all nodes", || {
                matches!(self.request(node, "GET", "probe", &all, None).status, 200 | 404)
            });
        }
    }

    pub(crate) fn connect(&self, node: usize) -> Connection {
        self.nodes[node].connect()
    }

    /// A request through a node, over a connection of its own.
    pub(crate) fn request(
        &self,
        node: usize,
        method: &str,
        key: &str,
        replicas: &str,
        body: Option<&[u8]>,
    ) -> Response {
        self.connect(node).request(method, &target(key, replicas), body)
    }

    /// Stores a value, which has to work.
    #[track_caller]
    pub(crate) fn put(&self, node: usize, key: &str, replicas: &str, value: &[u8]) {
        let response = self.request(node, "PUT", key, replicas, Some(value));
        assert_eq!((response.status, response.text()), (201, ""), "PUT {key} {replicas} through {node}");
    }

    /// Deletes a key, which has to work.
    #[track_caller]
    pub(crate) fn delete(&self, node: usize, key: &str, replicas: &str) {
        let response = self.request(node, "DELETE", key, replicas, None);
        assert_eq!((response.status, response.text()), (202, ""), "DELETE {key} {replicas} through {node}");
    }

    /// The value of a key; `None` if there is none.
    #[track_caller]
    pub(crate) fn get(&self, node: usize, key: &str, replicas: &str) -> Option<Vec<u8>> {
        let response = self.request(node, "GET", key, replicas, None);
        match response.status {
            200 => Some(response.body),
            404 => None,
            status => panic!("GET {key} {replicas} through {node}: {status} {}", response.text()),
        }
    }

    /// Which nodes have a copy of their own of a key, as a range of each says.
    pub(crate) fn holders(&self, key: &str) -> Vec<usize> {
        let has = |node: &usize| {
            let end = format!("{key}\0");
            let target = crate::support::range(key, Some(end.as_bytes()));
            let response = self.connect(*node).request("GET", &target, None);
            assert_eq!(response.status, 200, "{}", response.text());
            !response.records().is_empty()
        };
        (0..self.nodes.len()).filter(has).collect()
    }
}

/// The target of an entity of so many replicas; the default if none are named.
pub(crate) fn target(key: &str, replicas: &str) -> String {
    if replicas.is_empty() { entity(key) } else { format!("{}&replicas={replicas}", entity(key)) }
}
