//! Commands about the node.

use ladoga_env::real::resident_bytes;
use ladoga_model::Durability;
use ladoga_resp::{Reply, Request, matches};
use ladoga_runtime::open_connections;
use ladoga_service::KeyValue;

use super::arguments::{integer, is};
use super::call::StoreCall;
use super::failed::{Failed, shown};
use super::served::{CommandResult, Served};
use super::subcommands;
use super::table::Verb;

/// The version of Redis that clients are told: what it can do with strings, this can.
pub(super) const REDIS_VERSION: &str = "7.0.15";

pub(super) fn ping(request: &Request) -> CommandResult {
    match request.len() {
        1 => Ok(Reply::Simple("PONG").into()),
        2 => Ok(Served::value(Some(request.bytes(1)))),
        _ => Err(Failed::err("wrong number of arguments for 'ping' command")),
    }
}

pub(super) fn time<K>(call: &StoreCall<K>) -> Served {
    let now_ms = call.door.now_ms();
    let parts = [now_ms / 1_000, now_ms % 1_000 * 1_000];
    Reply::Array(parts.map(|part| Reply::Text(part.to_string())).into()).into()
}

/// `SELECT`: there is one database.
pub(super) fn select(request: &Request) -> CommandResult {
    match integer(&request[1])? {
        0 => Ok(Served::OK),
        _ => Err(Failed::err("DB index is out of range")),
    }
}

/// `WAIT`: a write is answered once enough nodes have it, so there is nothing to be waited for.
pub(super) fn wait<K>(call: &StoreCall<K>, request: &Request) -> CommandResult {
    integer(&request[1])?;
    let timeout =
        integer(&request[2]).map_err(|_| Failed::err("timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failed::err("timeout is negative"));
    }
    Ok(Served::integer(call.replicas.ack - 1))
}

pub(super) fn lolwut() -> Served {
    let art = "   .-~~~-.      .-~~~-.\n~~~       ~~~~~~       ~~~~~\n    deep and cold\n";
    Reply::Verbatim(format!("{art}\nRedis ver. {REDIS_VERSION}\n")).into()
}

pub(super) fn cluster() -> CommandResult {
    Err(Failed::err("This instance has cluster support disabled"))
}

/// `MODULE`, `SLOWLOG` and `LATENCY`: as of a server that has none of these.
pub(super) fn nothing_of(verb: Verb, request: &Request) -> CommandResult {
    Ok(match (verb, subcommands::name(verb, request)) {
        (_, "HELP") => subcommands::help(verb).into(),
        (Verb::SlowLog, "LEN") | (Verb::Latency, "RESET") => Served::integer(0),
        (Verb::SlowLog, "RESET") => Served::OK,
        (Verb::SlowLog, "GET")
            if request.get(2).map(integer).transpose()?.is_some_and(|count| count < -1) =>
        {
            return Err(Failed::err("count should be greater than or equal to -1"));
        }
        _ => Reply::Array(Vec::new()).into(),
    })
}

/// How many settings can be asked for at once, and how long each name or pattern may be.
const PATTERNS_MAX: usize = 64;
pub(super) const PATTERN_BYTES_MAX: usize = 128;
/// Settings that clients ask for, and that are the same on each node.
const SETTINGS: [(&str, &str); 10] = [
    ("appendonly", "yes"),
    ("databases", "1"),
    ("hz", "10"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("proto-max-bulk-len", "67108864"),
    ("save", ""),
    ("slowlog-log-slower-than", "-1"),
    ("slowlog-max-len", "0"),
    ("timeout", "0"),
];

/// How Redis calls what `--fsync` of the node says.
const fn appendfsync(durability: Durability) -> &'static str {
    match durability {
        Durability::Always => "always",
        Durability::EverySecond => "everysec",
        Durability::Never => "no",
    }
}

pub(super) fn config<K>(call: &StoreCall<K>, request: &Request) -> CommandResult {
    match subcommands::name(Verb::Config, request) {
        "GET" => settings(call, request),
        "SET" => {
            let name = shown(&request[2]);
            let words = format_args!(
                "CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"
            );
            Err(Failed::Told(Reply::error(words)))
        }
        "HELP" => Ok(subcommands::help(Verb::Config).into()),
        _ => Ok(Served::OK),
    }
}

/// `CONFIG GET`.
fn settings<K>(call: &StoreCall<K>, request: &Request) -> CommandResult {
    if request.len() > 2 + PATTERNS_MAX || request.from(2).any(|pattern| pattern.len() > PATTERN_BYTES_MAX) {
        return Err(Failed::err("at most 64 settings can be asked for, by 128 bytes each"));
    }
    let is_wanted =
        |name: &str| request.from(2).any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
    let settings = &call.door.settings;
    let mut addresses: Vec<String> = settings.addresses.iter().map(ToString::to_string).collect();
    addresses.dedup();
    let bind = addresses.join(" ");
    let of_node = [("appendfsync", appendfsync(settings.durability)), ("bind", &*bind)];
    let wanted = of_node.into_iter().chain(SETTINGS).filter(|(name, _)| is_wanted(name));
    Ok(Reply::Map(wanted.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect()).into())
}

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// `INFO`: what clients look for, and what is different here.
pub(super) fn info<K: KeyValue>(call: &StoreCall<K>, request: &Request) -> Served {
    let (door, nodes) = (&call.door.door, call.door.door.nodes);
    let connections = open_connections(&door.metrics.loops);
    let accepted: u64 = door.metrics.loops.iter().map(|metrics| metrics.connections_total()).sum();
    let commands: u64 = door.metrics.loops.iter().map(|metrics| metrics.commands()).sum();
    let uptime = call.door.uptime_seconds();
    let transactions = if door.is_alone {
        "MULTI, MSET, MSETNX, RENAME, COPY and DEL: all or nothing, isolated"
    } else {
        "MULTI: in order, not isolated; MSET, MSETNX, RENAME, COPY and DEL: each key by itself"
    };
    let is_wanted = |section: &str| {
        let all = ["all", "default", "everything"];
        request.len() == 1
            || request.from(1).any(|wanted| is(wanted, section) || all.into_iter().any(|all| is(wanted, all)))
    };
    let sections = [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("os", std::env::consts::OS.to_owned()),
                ("arch_bits", usize::BITS.to_string()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", uptime.to_string()),
                ("uptime_in_days", (uptime / SECONDS_A_DAY).to_string()),
                ("ladoga_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("ladoga_nodes", nodes.to_string()),
                ("ladoga_transactions", transactions.to_owned()),
            ],
        ),
        (
            "Clients",
            vec![("connected_clients", connections.to_string()), ("blocked_clients", "0".to_owned())],
        ),
        ("Memory", if is_wanted("Memory") { memory() } else { Vec::new() }),
        (
            "Persistence",
            vec![
                ("loading", "0".to_owned()),
                ("aof_enabled", "1".to_owned()),
                ("rdb_changes_since_last_save", "0".to_owned()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_connections_received", accepted.to_string()),
                ("total_commands_processed", commands.to_string()),
            ],
        ),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Cluster", vec![("cluster_enabled", "0".to_owned())]),
        // How many keys there are, only reading all of them tells.
        ("Keyspace", vec![]),
    ];
    let mut text = String::new();
    for (section, fields) in sections.into_iter().filter(|(section, _)| is_wanted(section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.extend(["# ", section, "\r\n"]);
        fields.iter().for_each(|(name, value)| text.extend([name, ":", value.as_str(), "\r\n"]));
    }
    Reply::Verbatim(text).into()
}

/// What the process holds of memory, if the system says so, and how Redis calls that there is no limit to what is stored.
fn memory() -> Vec<(&'static str, String)> {
    let resident = resident_bytes();
    let held = ["used_memory", "used_memory_rss"].map(|name| Some((name, resident?.to_string())));
    let limits = [("maxmemory", "0".to_owned()), ("maxmemory_policy", "noeviction".to_owned())];
    held.into_iter().flatten().chain(limits).collect()
}
