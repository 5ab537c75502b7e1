use std::path::PathBuf;

use clap::Args;

/// By what Cassandra is reached, as it was typed: `settings` says what it means.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "With --engine cassandra")]
pub(crate) struct CassandraFlags {
    /// Some of its nodes; the others are found by themselves
    #[arg(id = "cassandra_nodes", long = "cassandra-nodes", value_name = "HOST:PORT,...")]
    pub(crate) nodes: Option<String>,
    /// Name to log in by [default: none]
    #[arg(id = "cassandra_user", long = "cassandra-user", value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the password of that name
    #[arg(id = "cassandra_password_file", long = "cassandra-password-file", value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Datacenter whose nodes have the keys [default: the only one]
    #[arg(id = "cassandra_datacenter", long = "cassandra-datacenter", value_name = "NAME")]
    pub(crate) datacenter: Option<String>,
    /// What the names of the keyspaces begin with; another word is another store in the same cluster [default: ladoga]
    #[arg(id = "cassandra_keyspace", long = "cassandra-keyspace", value_name = "WORD")]
    pub(crate) keyspace: Option<String>,
    /// Number of copies of a key if a request says no other, and at most; another one is another store [default: as until now; of a new store 3, or
    /// as many as there are nodes]
    #[arg(id = "cassandra_replicas", long = "cassandra-replicas", value_name = "N")]
    pub(crate) replicas: Option<String>,
    /// How keys are written: plain (the newest timestamp wins) or lwt (each as a lightweight transaction: slower, with conditional
    /// requests and increments); all doors the same [default: plain]
    #[arg(id = "cassandra_writes", long = "cassandra-writes", value_name = "HOW")]
    pub(crate) writes: Option<String>,
    /// Speak TLS to nodes whose certificates are signed by one of this PEM file [default: no TLS]
    #[arg(id = "cassandra_tls_ca", long = "cassandra-tls-ca", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}
