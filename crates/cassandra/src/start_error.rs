use crate::settings::Writes;

/// Why a door to Cassandra does not start. Each says what helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// None of the nodes answers.
    #[error("no node of --cassandra-nodes {nodes} can be reached: {reason}")]
    NoContact {
        /// As they were given.
        nodes: String,
        /// Why not.
        reason: String,
    },
    /// Cassandra does not let this user in.
    #[error(
        "Cassandra refuses the user {user}: {reason}; expected --cassandra-user and --cassandra-password-file of a role that may \
         log in (CREATE ROLE … WITH LOGIN = true AND PASSWORD = …)"
    )]
    NotLetIn {
        /// Its name, or that there is none.
        user: String,
        /// What Cassandra says.
        reason: String,
    },
    /// What is to be trusted cannot be used.
    #[error(
        "--cassandra-tls-ca has no certificate that can be used: {reason}; expected a file of PEM certificates"
    )]
    Certificates {
        /// Why not.
        reason: String,
    },
    /// It is not said where keys are to live.
    #[error("--cassandra-datacenter is {found}, expected one of {known}")]
    Datacenter {
        /// What was said.
        found: String,
        /// Those that there are.
        known: String,
    },
    /// There are fewer nodes than copies of a key.
    #[error(
        "--cassandra-replicas is {replicas}, but datacenter {datacenter} has {nodes} nodes: expected a number from 1 to {nodes}, or \
         more nodes"
    )]
    TooFewNodes {
        /// How many copies a key is to have.
        replicas: u32,
        /// Where.
        datacenter: String,
        /// How many there are.
        nodes: u32,
    },
    /// There were more nodes when the first keys were stored.
    #[error(
        "the keyspace {keyspace} says that keys have {replicas} copies, but datacenter {datacenter} has {nodes} nodes, as far as the one \
         that was asked knows: expected {replicas} nodes or more. A number from 1 to {nodes} as --cassandra-replicas is another store, \
         without these keys"
    )]
    TooFewNodesLeft {
        /// The one with the most copies.
        keyspace: String,
        /// How many copies its keys have.
        replicas: u32,
        /// Where.
        datacenter: String,
        /// How many there are.
        nodes: u32,
    },
    /// Acknowledged writes would be lost if all machines failed at once.
    #[error(
        "--fsync is 'always', but the nodes of Cassandra have commitlog_sync {found}: a write is acknowledged before it is on disk. \
         Set commitlog_sync to batch or group in cassandra.yaml, or accept that with --fsync everysec"
    )]
    NotSynced {
        /// What it is.
        found: String,
    },
    /// They might be lost.
    #[error(
        "--fsync is 'always', but nodes of Cassandra do not say what their commitlog_sync is ({reason}): it is not known whether a write \
         is acknowledged before it is on disk. GRANT SELECT ON system_views.settings TO the user of --cassandra-user, or accept that with \
         --fsync everysec"
    )]
    SyncUnknown {
        /// Why not.
        reason: String,
    },
    /// A keyspace is missing, and may not be made.
    #[error("{reason}; have somebody with the right to do so run:\n{cql}")]
    NoKeyspace {
        /// What Cassandra says.
        reason: String,
        /// What makes it.
        cql: String,
    },
    /// A keyspace has other replicas than its name says.
    #[error("the keyspace {keyspace} has replication {found}; expected what this makes of it:\n{cql}")]
    OtherReplication {
        /// Which one.
        keyspace: String,
        /// What it has.
        found: String,
        /// What mends it.
        cql: String,
    },
    /// The tables are none of ours.
    #[error(
        "the keyspace {keyspace} has tables of another layout: {reason}; expected those that docs/cassandra.md describes"
    )]
    OtherLayout {
        /// Which one.
        keyspace: String,
        /// What is wrong.
        reason: String,
    },
    /// Other doors write otherwise.
    #[error(
        "the keyspace {keyspace} is written with --cassandra-writes {found}, and this door has {}: mixing them loses writes. Start it \
         with {found}; or stop all doors, wait until the clocks of all machines are past the max(WRITETIME(etag)) of \
         {keyspace}.entities (docs/cassandra.md says why), and run:\nCONSISTENCY ALL;\nUPDATE {keyspace}.meta SET writes = '{}' WHERE id = 'ladoga';",
        own.word(), own.word()
    )]
    OtherWrites {
        /// Which one.
        keyspace: String,
        /// How it is written.
        found: String,
        /// How this door writes.
        own: Writes,
    },
    /// Cassandra cannot do it now.
    #[error("Cassandra cannot prepare the keyspace {keyspace}: {reason}")]
    NotNow {
        /// Which one.
        keyspace: String,
        /// What it says.
        reason: String,
    },
    /// The system has no more threads.
    #[error("cannot start the threads of the driver: {0}")]
    Threads(String),
}
