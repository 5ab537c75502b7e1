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

/// The configuration of a node in this directory.
pub(crate) fn yaml(
    host: Ipv4Addr,
    seeds: &[Ipv4Addr],
    directory: &Path,
    (sync, login): (CommitLogSync, Login),
) -> String {
    let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "cluster_name: ladoga\n\
         num_tokens: 16\n\
         partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         endpoint_snitch: SimpleSnitch\n\
         seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      - seeds: \"{}\"\n\
         listen_address: {host}\n\
         rpc_address: {host}\n\
         storage_port: {STORAGE_PORT}\n\
         native_transport_port: {NATIVE_PORT}\n",
        seeds.join(",")
    );
    for (name, folder) in [
        ("commitlog_directory", "commitlog"),
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
    let _ = writeln!(text, "data_file_directories:\n  - {}", directory.join("data").display());
    text.push_str(match sync {
        CommitLogSync::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 1000ms\n",
        CommitLogSync::Batch => "commitlog_sync: batch\n",
    });
    text.push_str(match login {
        Login::Anybody => "authenticator: AllowAllAuthenticator\nauthorizer: AllowAllAuthorizer\n",
        Login::ByPassword => {
            "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\nrole_manager: CassandraRoleManager\n"
        }
    });
    text
}
