use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use ladoga_env::Env;
use ladoga_env::real::RealDisk;
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::{Membership, MembershipFile, leave_list};
use ladoga_node::{Config, Node, Placement, RespSettings};
use ladoga_storage::{MEMORY_BYTES_MIN, Options, count_tables};
use rustix::process::{getppid, set_parent_process_death_signal};
use sd_notify::NotifyState;
use tokio::runtime::{Builder, Runtime};

use super::data_directory::{self, cannot_open};
use super::life::{Signals, cannot_start, failed, on_a_thread, watched};
use super::telemetry::Telemetry;
use super::{Failure, complain, notify, output};
use crate::arguments::ServeFlags;
use crate::client::Url;
use crate::logging::{self, LIFE};
use crate::reload;
use crate::settings::{DiskReads, Engine, Settings, format_size, raise_descriptor_limit, unknown_variables};
use crate::tokens;

/// Descriptors that connections leave to new tables, large values and the log, beside one for each table that there is.
const DESCRIPTORS_RESERVED: u64 = 512;
/// Connections that a node should have descriptors for.
const CONNECTIONS_WANTED: u64 = 512;

/// Runs a node until a signal or a panic ends it: validate → listen → open → serve → drain → close.
pub(crate) fn serve(flags: &ServeFlags) -> Result<(), Failure> {
    if let Some(parent) = flags.ends_with {
        end_with(parent)?;
    }
    let settings = Settings::read(flags)?;
    if flags.check_config {
        return check_config(&settings);
    }
    logging::start(settings.log.clone(), settings.log_format);
    for objection in unknown_variables().iter().chain(&settings.objection) {
        tracing::warn!("{objection}");
    }
    let env = environment(settings.disk_reads)?;
    if matches!(settings.engine, Engine::Embedded) {
        data_directory::check(&env, &settings)?;
        if let Some(objection) = data_directory::objection(&env, &settings) {
            tracing::warn!("{objection}");
        }
    }
    let opened = tokens::open(&settings.access, settings.tls.as_ref(), &own_hosts(&settings))?;
    let (access, peer_secret) = (opened.access, opened.peer_secret);
    reload::watch(opened.watched)?;
    if settings.access.is_in_the_clear {
        tracing::warn!(
            "tokens and values travel over the network as they are: let in only networks that you trust, or a proxy with TLS"
        );
    }
    let telemetry = Telemetry::start(&env, &settings)?;
    let traces = telemetry.traces.clone();
    #[cfg(feature = "cassandra")]
    if let Engine::Cassandra(cassandra) = &settings.engine {
        let config = Config { access: Arc::new(access), traces, ..config(&settings, 0) };
        return super::door::serve(&env, (&settings, telemetry), config, cassandra);
    }
    let tables = count_tables(&*env.disk, &settings.data) as u64;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let node = Node::start(
        Config { access: Arc::new(access), peer_secret, traces, ..config(&settings, tables) },
        Arc::clone(&env.clock),
        Arc::clone(&env.net),
    )
    .map_err(|error| cannot_start(&settings, &error))?;
    let started_ns = env.clock.monotonic_ns();
    let Some(store) = open(&runtime, &mut signals, &env, &settings)? else {
        // Nothing was served yet, so there is nothing to lose.
        return Ok(());
    };
    if let Some(membership) = &settings.membership {
        let kept =
            MembershipFile::keep(&env, &settings.data, &membership.nodes, membership.own).map_err(failed)?;
        node.join(&env, &settings.data, &kept, &store).map_err(failed)?;
    }
    let disk_reads = store.no_rings().map_or_else(|| "io_uring".to_owned(), |why| format!("threads ({why})"));
    node.open(Arc::new(store));
    announce(&settings, &node, &disk_reads, (env.clock.monotonic_ns() - started_ns) / 1_000_000);
    notify::tell(NotifyState::Ready);
    let ended = runtime.block_on(signals.unless_one_comes(watched(node.panicked())));
    notify::tell(NotifyState::Stopping);
    match ended {
        Ok(panicked) => tracing::info!(target: LIFE, "{panicked}: finishing the requests in flight"),
        Err(signal) => tracing::info!(target: LIFE, "{signal}: finishing the requests in flight"),
    }
    stop(&runtime, &mut signals, (node, telemetry))
}

/// Prints with what the node would run. That the settings are right was checked before.
fn check_config(settings: &Settings) -> Result<(), Failure> {
    let mut of_data = [None, None];
    if matches!(settings.engine, Engine::Embedded) {
        let env = environment(settings.disk_reads)?;
        data_directory::check(&env, settings)?;
        of_data = [data_directory::objection_to_access(settings), data_directory::objection(&env, settings)];
    }
    tokens::check(&settings.access, settings.tls.as_ref())?;
    for objection in unknown_variables().iter().chain(&settings.objection).chain(of_data.iter().flatten()) {
        complain(format_args!("{objection}"));
    }
    let what = describe(settings, &settings.urls(&settings.listen, &settings.resp));
    writeln!(output(), "the settings are right: {what}")?;
    Ok(())
}

/// Makes the system end this process when the one that started it ends.
fn end_with(parent: u32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed)?;
    // It may have ended before that call.
    if getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
        return Err(Failure::Failed(format!("process {parent}, which started this node, is gone")));
    }
    Ok(())
}

fn environment(disk_reads: DiskReads) -> std::io::Result<Env> {
    let env = ladoga_env::real::env()?;
    match disk_reads {
        DiskReads::Auto => Ok(env),
        DiskReads::Pool => Ok(Env { disk: Arc::new(RealDisk::without_rings()), ..env }),
    }
}

/// The host under which the other nodes of its cluster know this one.
fn own_hosts(settings: &Settings) -> Vec<String> {
    let own = |membership: &Membership| {
        let name = membership.nodes.name(membership.own);
        Url::parse(name).map(|url| url.host)
    };
    settings.membership.as_ref().and_then(own).into_iter().collect()
}

/// What the ways in are started with, if the store has so many tables.
fn config(settings: &Settings, tables: u64) -> Config {
    let descriptors = raise_descriptor_limit();
    if let Some(objection) = objection_to_descriptors(descriptors, tables) {
        tracing::warn!("{objection}");
    }
    let mut limits = settings.limits.clone();
    let for_connections = descriptors_for_connections(descriptors, tables);
    limits.connections_max =
        limits.connections_max.min(usize::try_from(for_connections).unwrap_or(usize::MAX));
    Config {
        limits,
        membership: settings.membership.clone(),
        peer_limits: settings.peer_limits.clone(),
        resp: settings.resp.clone(),
        resp_settings: RespSettings {
            allows_flush: settings.resp_flush,
            durability: settings.durability,
            addresses: settings.resp.iter().map(SocketAddr::ip).collect(),
        },
        placement: if settings.follows_load { Placement::AsLoadAsks } else { Placement::AllLoops },
        ..Config::alone(settings.listen.clone(), settings.threads)
    }
}

/// How many descriptors are left for connections: half of the limit, if that is low.
fn descriptors_for_connections(descriptors: u64, tables: u64) -> u64 {
    let left = descriptors.saturating_sub(tables);
    left.saturating_sub(DESCRIPTORS_RESERVED).max(left / 2)
}

fn objection_to_descriptors(descriptors: u64, tables: u64) -> Option<String> {
    let expected = tables + DESCRIPTORS_RESERVED + CONNECTIONS_WANTED;
    let connections = descriptors_for_connections(descriptors, tables);
    (descriptors < expected).then(|| {
        format!(
            "the limit of open files is {descriptors}, expected at least {expected} with {tables} tables (ulimit -n, \
             LimitNOFILE=): there may be {connections} connections, and reads and writes that need one more file get 503"
        )
    })
}

/// Opens the data directory, unless a signal comes first.
fn open(
    runtime: &Runtime,
    signals: &mut Signals,
    env: &Env,
    settings: &Settings,
) -> Result<Option<Embedded>, Failure> {
    let is_in_cluster = settings.membership.is_some();
    let keep_log_ms = settings.keep_log_ms;
    let options = Options { keep_log_ms, ..Options::new(engine_memory_bytes(settings), settings.durability) };
    let (env, data, changes_keep_ms) = (env.clone(), settings.data.clone(), settings.changes_keep_ms);
    let disk = Arc::clone(&env.disk);
    let opened = on_a_thread("open", move || {
        if is_in_cluster {
            Embedded::open_replica_to_follow(env, &data, options, changes_keep_ms)
        } else {
            // Before a deletion is dropped that only this node has.
            let leave = || leave_list(&*disk, &data);
            Embedded::open_to_follow(env, &data, options, changes_keep_ms, leave)
        }
    })?;
    match runtime.block_on(signals.unless_one_comes(opened)) {
        Ok(Ok(opened)) => opened.map(Some).map_err(|error| cannot_open(settings, &error)),
        Ok(Err(_)) => Err(cannot_open(settings, &"it panicked")),
        Err(_) => Ok(None),
    }
}

/// What the engine has of the memory budget: all but what the hash tree of a node of a cluster may take, and its peers.
fn engine_memory_bytes(settings: &Settings) -> u64 {
    let cluster_bytes = settings.membership.as_ref().map_or(0, |_| settings.peer_limits.memory_bytes());
    settings.memory_bytes.saturating_sub(cluster_bytes).max(MEMORY_BYTES_MIN)
}

fn stop(
    runtime: &Runtime,
    signals: &mut Signals,
    (node, telemetry): (Node<Embedded>, Telemetry),
) -> Result<(), Failure> {
    let stopped = on_a_thread("stop", move || {
        let stopped = node.stop();
        telemetry.stop();
        stopped
    })?;
    match runtime.block_on(signals.unless_one_insists(stopped))? {
        Ok(Ok(())) => {
            tracing::info!(target: LIFE, "stopped, everything is on disk");
            Ok(())
        }
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(Failure::Failed("stopping panicked".to_owned())),
    }
}

fn announce(settings: &Settings, node: &Node<Embedded>, disk_reads: &str, open_ms: u64) {
    let what = describe(settings, &settings.urls(node.addresses(), node.resp_addresses()));
    tracing::info!(target: LIFE, "{what}, disk reads by {disk_reads}, opened in {open_ms} ms");
}

fn describe(settings: &Settings, addresses: &[String]) -> String {
    format!(
        "listening on {}, {}, fsync {}, memory {}, {}{} event loop{}",
        addresses.join(" and "),
        keys_in(settings),
        settings.durability.word(),
        format_size(settings.memory_bytes),
        if settings.follows_load { "up to " } else { "" },
        settings.threads,
        if settings.threads == 1 { "" } else { "s" },
    )
}

fn keys_in(settings: &Settings) -> String {
    match &settings.engine {
        Engine::Embedded => format!("data in {}", settings.data.display()),
        #[cfg(feature = "cassandra")]
        Engine::Cassandra(cassandra) => format!("keys in Cassandra at {}", cassandra.nodes.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_tables() {
        assert_eq!(descriptors_for_connections(1 << 20, 100), (1 << 20) - 100 - DESCRIPTORS_RESERVED);
        assert_eq!(descriptors_for_connections(128, 0), 64);
        assert_eq!(descriptors_for_connections(128, 100), 14);
        assert_eq!(descriptors_for_connections(128, 1_000), 0);
        assert_eq!(objection_to_descriptors(1_124, 100), None);
        let told = objection_to_descriptors(1_123, 100).expect("one too few");
        assert!(
            told.starts_with("the limit of open files is 1123, expected at least 1124 with 100 tables"),
            "{told}"
        );
    }
}
