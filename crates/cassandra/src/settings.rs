use ladoga_model::Durability;

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// By the newest timestamp: one round trip, no conditions.
    Plain,
    /// Each as a lightweight transaction of Cassandra: conditions are decided by it, and each write takes several round trips.
    Lwt,
}

impl Writes {
    /// Reads the word for one.
    pub fn parse(text: &str) -> Option<Writes> {
        [Writes::Plain, Writes::Lwt].into_iter().find(|writes| writes.word() == text)
    }

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Writes::Plain => "plain",
            Writes::Lwt => "lwt",
        }
    }
}

/// By what Cassandra is reached, and how it is used.
#[derive(Clone)]
pub struct Settings {
    /// `HOST:PORT` of some of its nodes; the others are found by themselves.
    pub nodes: Vec<String>,
    /// The name and the password to log in by, if it asks for them.
    pub user: Option<(String, String)>,
    /// The datacenter whose nodes have the keys.
    pub datacenter: Option<String>,
    /// What the names of the keyspaces begin with: `ladoga` for `ladoga_rf3`.
    pub keyspace: String,
    /// How keys are written.
    pub writes: Writes,
    /// Certificates, as PEM, that those of the nodes are signed by: TLS is spoken then.
    pub tls_ca: Option<Vec<u8>>,
    /// On how many nodes a key lives at most, and if nothing is said: as until now, or else three, or as many as there are.
    pub replicas: Option<u32>,
    /// How long a request may take.
    pub timeout_ms: u64,
    /// How long the pieces of values that were replaced stay for those who still read them.
    pub pieces_keep_ms: u64,
    /// How durable an acknowledged write is to be.
    pub durability: Durability,
    /// How many threads the connections to it have.
    pub threads: usize,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password.
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("Settings").field("nodes", &self.nodes).field("user", &user).finish_non_exhaustive()
    }
}
