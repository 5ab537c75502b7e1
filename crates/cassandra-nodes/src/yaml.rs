use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::network::{NATIVE_PORT, STORAGE_PORT};

/// When a node writes its commit log to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitLogSync {
    /// Once in a while.
    Periodic,
    /// Before it acknowledges a write.
    Batch,
}

/// Who may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// Everybody, everything.
    Anybody,
    /// Who has a password, what they were granted. In the beginning there is `cassandra` with the password `cassandra`.
    ByPassword,
}

/// What all nodes have in common.
#[derive(Clone, Copy)]
pub struct Setup<'s> {
    /// When they write their commit log to disk.
    pub sync: CommitLogSync,
    /// Who may do what.
    pub login: Login,
    /// What makes the key and the certificate of the node at an address, as PEM. Clients have to speak TLS then.
    pub certificate: Option<&'s dyn Fn(Ipv4Addr) -> String>,
    /// How much room they have for data.
    pub room: Room<'s>,
    /// In which datacenter each of them is. Those of which nothing is said are in `datacenter1`.
    pub datacenters: &'s [&'s str],
}

const DATACENTER: &str = "datacenter1";

/// How much room there is for data.
#[derive(Debug, Clone, Copy)]
pub enum Room<'s> {
    /// As much as the disk has.
    Disk,
    /// From this many bytes on, Cassandra refuses the writes of whoever has to log in and is no superuser.
    Quota(u64),
    /// A disk that is mounted here for programs that this command runs.
    SmallDisk(&'s Path, &'s [String]),
}

impl Setup<'_> {
    /// For everybody, without TLS.
    pub const fn open(sync: CommitLogSync) -> Self {
        Setup { sync, login: Login::Anybody, certificate: None, room: Room::Disk, datacenters: &[] }
    }
}

impl Room<'_> {
    /// Where data is, of a node in this directory.
    fn directory<'d>(&'d self, directory: &'d Path) -> &'d Path {
        match self {
            Room::SmallDisk(path, _) => path,
            Room::Disk | Room::Quota(_) => directory,
        }
    }

    /// The command that runs a node.
    pub(crate) fn wrapper(&self) -> &[String] {
        match self {
            Room::SmallDisk(_, wrapper) => wrapper,
            Room::Disk | Room::Quota(_) => &[],
        }
    }

    fn yaml(&self) -> String {
        match self {
            Room::Disk => String::new(),
            // Without snapshots of what is dropped, which would take as much room.
            Room::Quota(bytes) => format!(
                "data_disk_usage_max_disk_size: {bytes}B\ndata_disk_usage_percentage_warn_threshold: 80\n\
                 data_disk_usage_percentage_fail_threshold: 90\nauto_snapshot: false\n"
            ),
            Room::SmallDisk(..) => "commitlog_segment_size: 4MiB\ncommitlog_total_space: 16MiB\n".to_owned(),
        }
    }
}

/// Where a node has its key and its certificate.
pub(crate) const CERTIFICATE_FILE: &str = "certificate.pem";

/// Where a node has in which datacenter it is.
pub(crate) const PLACE_FILE: &str = "cassandra-rackdc.properties";

/// What is in that file.
pub(crate) fn place(node: usize, setup: Setup<'_>) -> String {
    format!("dc={}\nrack=rack1\n", setup.datacenters.get(node).unwrap_or(&DATACENTER))
}

/// The configuration of a node in this directory.
pub(crate) fn yaml(host: Ipv4Addr, seeds: &[Ipv4Addr], directory: &Path, setup: Setup<'_>) -> String {
    let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "cluster_name: ladoga\n\
         num_tokens: 16\n\
         partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         endpoint_snitch: GossipingPropertyFileSnitch\n\
         seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      - seeds: \"{}\"\n\
         listen_address: {host}\n\
         rpc_address: {host}\n\
         storage_port: {STORAGE_PORT}\n\
         native_transport_port: {NATIVE_PORT}\n",
        seeds.join(",")
    );
    let large = setup.room.directory(directory);
    let _ = writeln!(text, "data_file_directories:\n  - {}", large.join("data").display());
    let _ = writeln!(text, "commitlog_directory: {}", large.join("commitlog").display());
    for (name, folder) in [
        ("saved_caches_directory", "saved_caches"),
        ("hints_directory", "hints"),
        ("cdc_raw_directory", "cdc_raw"),
    ] {
        let _ = writeln!(text, "{name}: {}", directory.join(folder).display());
    }
    // A machine with little time to spare is slow, and nothing is wrong with that.
    for kind in
        ["read_request", "range_request", "write_request", "cas_contention", "truncate_request", "request"]
    {
        let _ = writeln!(text, "{kind}_timeout: 60s");
    }
    text.push_str(&setup.room.yaml());
    text.push_str(match setup.sync {
        CommitLogSync::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 1000ms\n",
        CommitLogSync::Batch => "commitlog_sync: batch\n",
    });
    text.push_str(match setup.login {
        Login::Anybody => "authenticator: AllowAllAuthenticator\nauthorizer: AllowAllAuthorizer\n",
        Login::ByPassword => {
            "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nrole_manager: CassandraRoleManager\n"
        }
    });
    if setup.certificate.is_some() {
        let file = directory.join(CERTIFICATE_FILE);
        let _ = write!(
            text,
            "client_encryption_options:\n  enabled: true\n  optional: false\n  keystore: {}\n  ssl_context_factory:\n    \
             class_name: org.apache.cassandra.security.PEMBasedSslContextFactory\n",
            file.display()
        );
    }
    text
}
