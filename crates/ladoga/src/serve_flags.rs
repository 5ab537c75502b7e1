use std::path::PathBuf;

use clap::Args;

use crate::access_flags::AccessFlags;
use crate::cassandra_arguments::CassandraFlags;
use crate::otlp_flags::OtlpFlags;
use crate::tls_flags::TlsFlags;

const SERVE_EXAMPLES: &str = "\
Every setting can also be an environment variable (LADOGA_LISTEN, LADOGA_RESP, ...) or a key of a TOML file
(listen = \"...\"). A flag overrides the environment, which overrides the file.

Examples:
  ladoga serve
  ladoga serve --listen 0.0.0.0:9000 --tokens tokens.toml --data /var/lib/ladoga --memory 4GiB
  ladoga serve --fsync everysec --threads 2
  ladoga serve --tls-cert node.pem --tls-key node.key      (`ladoga certs create` makes both)
  ladoga serve --listen 0.0.0.0:8080 --insecure --cluster http://a:8080,http://b:8080,http://c:8080
  LADOGA_MEMORY=512MiB ladoga serve --config ladoga.toml
  ladoga serve --engine cassandra --cassandra-nodes db1:9042,db2:9042 --fsync everysec

Exit codes: 0 if a signal stopped the node and everything is on disk; 2 if a setting is wrong (nothing was opened); 1 on any
other error.";

const SERVE_ADVANCED: &str = "
Rarely needed settings, as environment variables or in the file only:
  LADOGA_REQUEST_TIMEOUT_MS        time in which a request must arrive completely [default: 10000]
  LADOGA_ANSWER_TIMEOUT_MS         time after which a client that reads nothing of its response is disconnected [default: 30000]
  LADOGA_IDLE_TIMEOUT_MS           time after which a connection without a request is closed [default: 120000]
  LADOGA_DRAIN_TIMEOUT_MS          time for requests in flight when the node stops [default: 10000]
  LADOGA_PEER_TIMEOUT_MS           time after which a silent peer counts as failed [default: 1000]
  LADOGA_PEER_CONNECT_TIMEOUT_MS   time in which a connection to a peer must be established [default: 1000]
  LADOGA_QUORUM_TIMEOUT_MS         time that a request waits for its replicas [default: 5000]
  LADOGA_CLOCK_AHEAD_MS_MAX        how far a version may be ahead of the time of a majority of the nodes [default: 60000]
  LADOGA_CHANGES_KEEP_MS           how long deletions are kept for those who follow changes [default: 86400000, a day]
  LADOGA_CASSANDRA_PIECES_KEEP_MS  how long parts of replaced large values stay for their readers [default: 3600000, an hour]
  LADOGA_OTLP_TIMEOUT_MS           time in which the collector must take a batch of spans, tries included [default: 10000]
  LADOGA_DISK_READS                how blocks are read: auto (io_uring if available, else threads) or pool (threads) [default: auto]
  LADOGA_LOG_FORMAT                how a line of the log looks: text or json [default: text]
  LADOGA_LOG                       log level: off, error, warn, info, debug or trace, or a list such as
                                   warn,ladoga_storage=debug [default: warn]";

/// The flags of a node, as they were typed: `settings` says what they mean.
#[derive(Debug, Default, Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n{SERVE_ADVANCED}"))]
pub(crate) struct ServeFlags {
    /// Address for clients and peers to connect to [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Address for clients of Redis to connect to, which need no other change [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) resp: Option<String>,
    /// Clients of Redis may delete everything at once, by FLUSHALL and FLUSHDB
    #[arg(long)]
    pub(crate) resp_flush: bool,
    /// Data directory; created if it does not exist [default: ./ladoga-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// All nodes of the cluster, including this one [default: none; the node stands alone]
    #[arg(long, value_name = "URL,URL,...")]
    pub(crate) cluster: Option<String>,
    /// Which URL of --cluster is this node [default: the one with its port and a host of this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// When a write is synced to disk: always (before it is acknowledged), everysec (within a second) or never (when the
    /// operating system decides) [default: always]
    #[arg(long, value_name = "WHEN")]
    pub(crate) fsync: Option<String>,
    /// Memory budget for memtables, caches, indexes and buffers, such as 512MiB or 4GiB [default: a quarter of the
    /// machine's memory]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<String>,
    /// Number of event-loop threads [default: as many as the load asks for, up to the number of cores]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) threads: Option<String>,
    /// Requests that take so long, such as 200ms or 2s, are told in the log; never for none of them [default: 1s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) slow_request: Option<String>,
    /// How long the write-ahead log is kept for backups that restore to a point in time, such as 6h or 1d; fetch it with `ladoga
    /// backup log`. Less is kept if the disk is nearly full [default: never]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) keep_log: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessFlags,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// Where keys live: embedded (the data directory of this node) or cassandra (a cluster of Cassandra; this node has nothing
    /// on its disk) [default: embedded]
    #[arg(long, value_name = "ENGINE", help_heading = "Engine")]
    pub(crate) engine: Option<String>,
    #[command(flatten)]
    pub(crate) cassandra: CassandraFlags,
    #[command(flatten)]
    pub(crate) otlp: OtlpFlags,
    /// TOML file with settings [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Only check the settings: print what the node would run with, or what is wrong; warn if this user lacks permission for the data directory
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Ends at once with the process that started it: for `ladoga lab run`, which may be killed
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) ends_with: Option<u32>,
}
