//! The settings of a node: found by `sources`, parsed by `parse`, `cluster`, `access`, `tls`, `cassandra` and `otlp`, with defaults that depend on the
//! `machine`. `variables`: what looks like a setting in the environment and is none.

mod access;
mod cassandra;
mod cluster;
mod machine;
mod otlp;
mod parse;
mod sources;
mod tls;
mod variables;

use std::net::SocketAddr;
use std::path::PathBuf;

use ladoga_node::Limits;
use ladoga_node::embedded::CHANGES_KEPT_MS;
use ladoga_node::peers::{Membership, PeerLimits};
use ladoga_storage::Durability;
use ladoga_tls::TlsPaths;
use tracing_subscriber::filter::Targets;

use crate::arguments::ServeFlags;
use crate::logging::LogFormat;
pub(crate) use access::AccessSettings;
pub(crate) use cassandra::Engine;
use machine::Memory;
pub(crate) use machine::raise_descriptor_limit;
pub(crate) use otlp::OtlpSettings;
pub(crate) use parse::{DiskReads, alloc_interval, format_size, parse_size};
use sources::Sources;
pub(crate) use variables::unknown_variables;

/// An invalid setting; the name tells where it came from.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is '{value}', expected {expected}")]
pub(crate) struct SettingError {
    /// A flag, a variable, or a key and its file.
    pub(crate) name: String,
    /// What it is.
    pub(crate) value: String,
    /// What it could be.
    pub(crate) expected: String,
}

/// What a node is run with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) resp: Vec<SocketAddr>,
    /// Whether clients of Redis may delete everything at once.
    pub(crate) resp_flush: bool,
    pub(crate) data: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) memory_bytes: u64,
    /// A warning about a setting that is possible, but probably not meant.
    pub(crate) objection: Option<String>,
    pub(crate) threads: usize,
    /// Whether as many of them serve as the load asks for.
    pub(crate) follows_load: bool,
    pub(crate) membership: Option<Membership>,
    /// The URLs as they were written, also if that is this node alone.
    pub(crate) cluster: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) peer_limits: PeerLimits,
    /// How long deletions are kept for those who follow changes.
    pub(crate) changes_keep_ms: u64,
    /// How long the log is kept for backups; `None` if it is not.
    pub(crate) keep_log_ms: Option<u64>,
    pub(crate) disk_reads: DiskReads,
    pub(crate) access: AccessSettings,
    /// The files of TLS, if the node has it.
    pub(crate) tls: Option<TlsPaths>,
    pub(crate) log: Option<Targets>,
    pub(crate) log_format: LogFormat,
    pub(crate) engine: Engine,
    /// Where traces go, if they are recorded.
    pub(crate) otlp: Option<OtlpSettings>,
}

impl Settings {
    /// Reads and validates all settings. Opens nothing.
    pub(crate) fn read(flags: &ServeFlags) -> Result<Settings, SettingError> {
        Settings::from_sources(&Sources::of_process(flags)?)
    }

    /// Addresses of the two ways in, as URLs.
    pub(crate) fn urls(&self, http: &[SocketAddr], resp: &[SocketAddr]) -> Vec<String> {
        let s = if self.tls.is_some() { "s" } else { "" };
        let http = http.iter().map(|address| format!("http{s}://{address}"));
        http.chain(resp.iter().map(|address| format!("redis{s}://{address}"))).collect()
    }

    /// A message that has names of nodes in it, with their URLs: names are the same with TLS and without.
    pub(crate) fn with_urls(&self, message: &str) -> String {
        if self.tls.is_some() { message.replace("http://", "https://") } else { message.to_owned() }
    }

    /// The URL of this node: as its cluster knows it, or where it listens.
    #[cfg(feature = "otel")]
    pub(crate) fn own_url(&self) -> String {
        let of_cluster = self.membership.as_ref().map(|membership| membership.nodes.name(membership.own));
        of_cluster.map_or_else(|| self.urls(&self.listen, &[]).join(","), |name| self.with_urls(name))
    }

    fn from_sources(sources: &Sources) -> Result<Settings, SettingError> {
        let listen = sources.get("listen", parse::listen)?;
        let (host_and_port, listen) = listen.unwrap_or_else(parse::default_listen);
        let resp = sources.get("resp", parse::listen)?.map(|(_, resp)| resp).unwrap_or_default();
        let resp_flush = sources.get("resp_flush", parse::yes_or_no)?.unwrap_or(false);
        if resp_flush && resp.is_empty() {
            sources.get::<()>("resp_flush", |_| Err("--resp HOST:PORT with it".to_owned()))?;
        }
        let data = sources.get("data", parse::directory)?.unwrap_or_else(|| PathBuf::from("./ladoga-data"));
        let durability = sources.get("fsync", parse::durability)?.unwrap_or(Durability::Always);
        let memory = Memory::available();
        let memory_bytes = sources.get("memory", parse::memory)?;
        let is_too_much = |bytes| memory.objection(sources.name("memory")?, bytes);
        let objection = memory_bytes.and_then(is_too_much);
        let memory_bytes = memory_bytes.unwrap_or_else(|| memory.share());
        let wanted_threads = sources.get("threads", parse::threads)?;
        let threads = wanted_threads.unwrap_or_else(machine::cores);
        let membership = cluster::membership(sources, &host_and_port)?;
        let cluster = sources.get("cluster", |text| Ok(text.to_owned()))?;
        let follows_load = wanted_threads.is_none() && threads > 1;
        let limits = limits(sources, memory_bytes)?;
        let peers = membership.as_ref().map_or(0, |membership| membership.nodes.len() - 1);
        let peer_limits = peer_limits(sources, memory_bytes, peers * threads)?;
        let changes_keep_ms = sources.get("changes_keep_ms", parse::timeout_ms)?.unwrap_or(CHANGES_KEPT_MS);
        let has_log = !sources.is_on_another_engine();
        let keep_log_ms = sources.get("keep_log", |text| keep_log_ms(text, has_log))?.flatten();
        let disk_reads = sources.get("disk_reads", parse::disk_reads)?.unwrap_or(DiskReads::Auto);
        let listening = [("listen", &listen[..]), ("resp", &resp[..])];
        access::check_ports(sources, &listen, &resp)?;
        let tls = tls::paths(sources)?;
        let access = AccessSettings::read(sources, listening, membership.is_some(), tls.as_ref())?;
        let log = sources.get("log", parse::log)?;
        let log_format = sources.get("log_format", parse::log_format)?.unwrap_or(LogFormat::Text);
        let engine = cassandra::engine(sources, (durability, peer_limits.quorum_timeout_ms, threads))?;
        let otlp = otlp::otlp(sources)?;
        sources.check_overridden(check_form)?;
        Ok(Settings {
            listen,
            resp,
            resp_flush,
            data,
            durability,
            memory_bytes,
            objection,
            threads,
            follows_load,
            membership,
            cluster,
            limits,
            peer_limits,
            changes_keep_ms,
            keep_log_ms,
            disk_reads,
            access,
            tls,
            log,
            log_format,
            engine,
            otlp,
        })
    }
}

/// Checks the form of a setting, as far as that is possible without the others.
fn check_form(name: &str, text: &str) -> Result<(), String> {
    match name {
        "listen" | "resp" => parse::host_and_port(text).map(drop),
        "resp_flush" | "insecure" | "audit_writes" => parse::yes_or_no(text).map(drop),
        "tokens" | "peer_secret" | "audit" | "tls_cert" | "tls_key" | "tls_client_ca" | "peer_ca" => {
            access::file(text).map(drop)
        }
        "allow_host" => access::hosts(text).map(drop),
        "data" => parse::directory(text).map(drop),
        "cluster" => cluster::urls(text).map(drop),
        "advertise" => cluster::url(text).map(drop),
        "fsync" => parse::durability(text).map(drop),
        "memory" => parse::memory(text).map(drop),
        "threads" => parse::threads(text).map(drop),
        "keep_log" => parse::keep_log_ms(text).map(drop),
        "slow_request" => parse::slow_request_ms(text).map(drop),
        name if name.starts_with("cassandra_") || name == "engine" => cassandra::check_form(name, text),
        name if name.starts_with("otlp") => otlp::check_form(name, text),
        "disk_reads" => parse::disk_reads(text).map(drop),
        "log" => parse::log(text).map(drop),
        "log_format" => parse::log_format(text).map(drop),
        _ => parse::timeout_ms(text).map(drop),
    }
}

/// What is written to another engine is in no log of this node.
fn keep_log_ms(text: &str, has_log: bool) -> Result<Option<u64>, String> {
    match parse::keep_log_ms(text)? {
        Some(_) if !has_log => Err("never: records are in another engine, and so is their log".to_owned()),
        keep_ms => Ok(keep_ms),
    }
}

fn limits(sources: &Sources, memory_bytes: u64) -> Result<Limits, SettingError> {
    let mut limits = Limits::for_memory(memory_bytes);
    if let Some(slow_request_ms) = sources.get("slow_request", parse::slow_request_ms)? {
        limits.slow_request_ms = slow_request_ms;
    }
    for (name, limit) in [
        ("request_timeout_ms", &mut limits.request_timeout_ms),
        ("answer_timeout_ms", &mut limits.answer_timeout_ms),
        ("idle_timeout_ms", &mut limits.idle_timeout_ms),
        ("drain_timeout_ms", &mut limits.drain_timeout_ms),
    ] {
        if let Some(timeout_ms) = sources.get(name, parse::timeout_ms)? {
            *limit = timeout_ms;
        }
    }
    Ok(limits)
}

fn peer_limits(sources: &Sources, memory_bytes: u64, links: usize) -> Result<PeerLimits, SettingError> {
    let mut limits = PeerLimits::for_memory(memory_bytes, links);
    for (name, limit) in [
        ("peer_connect_timeout_ms", &mut limits.peer_connect_timeout_ms),
        ("peer_timeout_ms", &mut limits.peer_timeout_ms),
        ("quorum_timeout_ms", &mut limits.quorum_timeout_ms),
        ("clock_ahead_ms_max", &mut limits.clock_ahead_ms_max),
    ] {
        if let Some(timeout_ms) = sources.get(name, parse::timeout_ms)? {
            *limit = timeout_ms;
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &ServeFlags, env: &[(&str, &str)], file: &str) -> Result<Settings, SettingError> {
        Settings::from_sources(&Sources::of(flags, env, file)?)
    }

    #[test]
    fn a_flag_wins_over_the_environment_which_wins_over_the_file() {
        let file = "fsync = \"never\"\nmemory = \"48MiB\"\nthreads = 3\n";
        let flags = || ServeFlags { fsync: Some("always".into()), ..ServeFlags::default() };
        let env = [("LADOGA_FSYNC", "everysec"), ("LADOGA_MEMORY", "32MiB")];
        let settings = read(&flags(), &env, file).expect("settings");
        assert_eq!(settings.durability, Durability::Always);
        assert_eq!((settings.memory_bytes, settings.threads), (32 << 20, 3));
        let settings = read(&ServeFlags::default(), &env, file).expect("settings");
        assert_eq!(settings.durability, Durability::EverySecond);
        let settings = read(&ServeFlags::default(), &[], file).expect("settings");
        assert_eq!((settings.durability, settings.memory_bytes), (Durability::Never, 48 << 20));
    }

    #[test]
    fn an_error_names_the_setting_and_where_it_came_from() {
        let flags = ServeFlags { memory: Some("1MiB".into()), ..ServeFlags::default() };
        let error = read(&flags, &[], "").expect_err("too little").to_string();
        assert_eq!(
            error,
            "--memory is '1MiB', expected at least 16MiB, as a size such as 512MiB, 4GiB or 500000000"
        );
        let error =
            read(&ServeFlags::default(), &[("LADOGA_THREADS", "0")], "").expect_err("none").to_string();
        assert_eq!(error, "LADOGA_THREADS is '0', expected a number of event loops from 1 to 1024");
        let error = read(&ServeFlags::default(), &[], "fsync = 1").expect_err("a number").to_string();
        assert_eq!(error, "fsync in ladoga.toml is '1', expected always, everysec or never");
    }

    /// Otherwise a wrong line is found only on the day on which the flag is not given.
    #[test]
    fn a_wrong_line_of_the_file_is_named_also_where_another_wins() {
        let flags = || ServeFlags { memory: Some("32MiB".into()), ..ServeFlags::default() };
        let error = read(&flags(), &[], "memory = \"banana\"").expect_err("no size").to_string();
        assert!(error.starts_with("memory in ladoga.toml is 'banana', expected at least 16MiB"), "{error}");
        for (name, good, wrong) in [
            ("listen", "127.0.0.1:80", "80"),
            ("resp", "127.0.0.1:6379", "6379"),
            ("resp_flush", "false", "yes"),
            ("insecure", "true", "yes"),
            ("audit_writes", "false", "no"),
            ("tokens", "tokens.toml", ""),
            ("peer_secret", "secret", ""),
            ("audit", "audit.log", ""),
            ("allow_host", "db.example.com,*", "a:80"),
            ("data", "here", ""),
            ("cluster", "http://a:1,http://b:1", "a,b"),
            ("advertise", "http://a:1", "a"),
            ("fsync", "never", "often"),
            ("threads", "1", "none"),
            ("slow_request", "never", "slow"),
            ("keep_log", "never", "long"),
            ("disk_reads", "pool", "ring"),
            ("log_format", "json", "xml"),
            ("log", "warn", "zzz"),
            ("peer_timeout_ms", "5", "soon"),
            ("engine", "embedded", "rocksdb"),
        ] {
            let cluster = [
                ("LADOGA_CLUSTER", "http://a:1,http://b:1"),
                ("LADOGA_ADVERTISE", "http://a:1"),
                ("LADOGA_PEER_SECRET", "secret"),
            ];
            let variable = format!("LADOGA_{}", name.to_uppercase());
            let env: Vec<_> = std::iter::once((&*variable, good)).chain(cluster).collect();
            let file = |value: &str| format!("{name} = \"{value}\"");
            read(&flags(), &env, &file(good)).expect("settings");
            let error = read(&flags(), &env, &file(wrong)).expect_err("a wrong line").to_string();
            assert!(error.starts_with(&format!("{name} in ladoga.toml is '{wrong}', expected ")), "{error}");
        }
        // Another machine may know it.
        let env = [("LADOGA_LISTEN", "127.0.0.1:80")];
        read(&flags(), &env, "listen = \"host.invalid:80\"").expect("a host that nobody asks for");
    }

    #[test]
    fn who_listens_for_everybody_says_for_whom() {
        let read =
            |file: &str| read(&ServeFlags::default(), &[], file).map(drop).map_err(|error| error.to_string());
        let cluster = "cluster = [\"http://127.0.0.1:8080\", \"http://b:1\"]\n";
        for file in [
            "listen = \"127.0.0.1:1\"\nresp = \"[::1]:2\"",
            "listen = \"0.0.0.0:1\"\ninsecure = true",
            "listen = \"[::]:1\"\nresp = \"0.0.0.0:2\"\ntokens = \"t\"",
            &format!("{cluster}tokens = \"t\"\npeer_secret = \"s\""),
            cluster,
        ] {
            assert_eq!(read(file), Ok(()), "{file}");
        }
        for (file, said) in [
            (
                "listen = \"0.0.0.0:1\"",
                "listen in ladoga.toml is '0.0.0.0:1', expected a loopback address, or tokens: `ladoga",
            ),
            (
                "listen = \"[::]:1\"\ninsecure = false",
                "listen in ladoga.toml is '[::]:1', expected a loopback",
            ),
            ("resp = \"192.0.2.1:1\"", "resp in ladoga.toml is '192.0.2.1:1', expected a loopback"),
            (
                &format!("{cluster}tokens = \"t\""),
                "tokens in ladoga.toml is 't', expected --peer-secret FILE with it",
            ),
            ("resp_flush = true", "resp_flush in ladoga.toml is 'true', expected --resp HOST:PORT with it"),
            ("audit_writes = true", "audit_writes in ladoga.toml is 'true', expected --audit FILE with it"),
        ] {
            let error = read(file).expect_err(file);
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn every_node_with_a_store_of_its_own_may_keep_its_log() {
        let read = |file: &str| read(&ServeFlags::default(), &[], file).map(|settings| settings.keep_log_ms);
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("keep_log = \"6h\""), Ok(Some(21_600_000)));
        let cluster = "cluster = [\"http://127.0.0.1:8080\", \"http://b:1\"]\n";
        assert_eq!(read(&format!("{cluster}keep_log = \"6h\"")), Ok(Some(21_600_000)));
    }

    #[cfg(feature = "cassandra")]
    #[test]
    fn another_engine_keeps_no_log() {
        let read = |file: &str| read(&ServeFlags::default(), &[], file).map(|settings| settings.keep_log_ms);
        let other = "engine = \"cassandra\"\ncassandra_nodes = [\"127.0.0.1:9042\"]\n";
        assert_eq!(read(&format!("{other}keep_log = \"never\"")), Ok(None));
        let error = read(&format!("{other}keep_log = \"6h\"")).expect_err("another engine").to_string();
        assert!(error.starts_with("keep_log in ladoga.toml is '6h', expected never: records are"), "{error}");
    }

    #[test]
    fn disk_reads_are_by_ring_unless_it_is_said_otherwise() {
        let read = |file: &str| read(&ServeFlags::default(), &[], file).map(|settings| settings.disk_reads);
        assert_eq!(read(""), Ok(DiskReads::Auto));
        assert_eq!(read("disk_reads = \"pool\""), Ok(DiskReads::Pool));
        let error = read("disk_reads = \"ring\"").expect_err("no such way").to_string();
        assert_eq!(error, "disk_reads in ladoga.toml is 'ring', expected auto or pool");
    }

    #[test]
    fn timeouts_can_be_set_but_not_by_flag() {
        let env = [("LADOGA_REQUEST_TIMEOUT_MS", "300")];
        let settings = read(&ServeFlags::default(), &env, "idle_timeout_ms = 5").expect("settings");
        assert_eq!((settings.limits.request_timeout_ms, settings.limits.idle_timeout_ms), (300, 5));
        let env = [("LADOGA_REQUEST_TIMEOUT_MS", "soon")];
        assert!(read(&ServeFlags::default(), &env, "").is_err());
    }
}
