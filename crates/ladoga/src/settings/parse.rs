use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use ladoga_model::Ttl;
use ladoga_profiler::{ALLOC_INTERVAL_BYTES_MAX, ALLOC_INTERVAL_BYTES_MIN};
use ladoga_storage::{Durability, MEMORY_BYTES_MIN};
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::logging::LogFormat;

/// Event loops that make sense on any machine.
const THREADS_MAX: usize = 1024;
/// A day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// A year.
const KEEP_LOG_MS_MAX: u64 = 366 * 86_400_000;
/// More than any machine has. Budgets are sums and products of it, which have to stay numbers.
const MEMORY_BYTES_MAX: u64 = 64 << 40;
const DEFAULT_PORT: u16 = 8080;

/// A host as it was written, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostAndPort {
    pub(super) host: String,
    pub(super) port: u16,
}

impl HostAndPort {
    /// Parses `HOST:PORT`; an IPv6 address has to be in brackets.
    pub(super) fn parse(text: &str) -> Option<HostAndPort> {
        let (host, port) = text.rsplit_once(':')?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let bare = in_brackets.unwrap_or(host);
        let is_host =
            !bare.is_empty() && !bare.contains(['[', ']']) && bare.contains(':') == in_brackets.is_some();
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_host || !is_number {
            return None;
        }
        Some(HostAndPort { host: bare.to_owned(), port: port.parse().ok()? })
    }
}

/// The address to listen on, as it was written: whether there is such a host is not checked.
pub(super) fn host_and_port(text: &str) -> Result<HostAndPort, String> {
    HostAndPort::parse(text).ok_or_else(|| listen_expected(text))
}

/// With the port of what was written, if that is known: who wrote nothing else wants that one.
fn listen_expected(text: &str) -> String {
    let written = text.rsplit(':').next().and_then(number).and_then(|port| u16::try_from(port).ok());
    format!("HOST:PORT, such as 127.0.0.1:{}", written.unwrap_or(DEFAULT_PORT))
}

/// The address to listen on: as it was written, and every address that it stands for.
pub(super) fn listen(text: &str) -> Result<(HostAndPort, Vec<SocketAddr>), String> {
    let expected = || listen_expected(text);
    let parsed = host_and_port(text)?;
    let addresses = (parsed.host.as_str(), parsed.port).to_socket_addrs();
    let mut addresses: Vec<_> = addresses
        .map_err(|error| format!("{}, with a host that can be resolved: {error}", expected()))?
        .collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() { Err(expected()) } else { Ok((parsed, addresses)) }
}

pub(super) fn default_listen() -> (HostAndPort, Vec<SocketAddr>) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
    (HostAndPort { host: Ipv4Addr::LOCALHOST.to_string(), port: DEFAULT_PORT }, vec![address])
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path of a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn durability(text: &str) -> Result<Durability, String> {
    Durability::parse(text.as_bytes()).ok_or_else(|| Durability::WORDS.to_owned())
}

/// How blocks are read that memory does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskReads {
    /// By `io_uring` if the system permits it, otherwise by threads.
    Auto,
    /// By threads that wait.
    Pool,
}

pub(super) fn disk_reads(text: &str) -> Result<DiskReads, String> {
    match text {
        "auto" => Ok(DiskReads::Auto),
        "pool" => Ok(DiskReads::Pool),
        _ => Err("auto or pool".to_owned()),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("text or json".to_owned()),
    }
}

pub(super) fn memory(text: &str) -> Result<u64, String> {
    let [least, most] = [MEMORY_BYTES_MIN, MEMORY_BYTES_MAX].map(format_size);
    match size(text) {
        Some(bytes) if bytes > u128::from(MEMORY_BYTES_MAX) => Err(format!("at most {most}")),
        Some(bytes) if bytes >= u128::from(MEMORY_BYTES_MIN) => Ok(bytes as u64),
        _ => Err(format!("at least {least}, as a size such as 512MiB, 4GiB or 500000000")),
    }
}

pub(crate) fn alloc_interval(text: &str) -> Result<u64, String> {
    let bounds = ALLOC_INTERVAL_BYTES_MIN..=ALLOC_INTERVAL_BYTES_MAX;
    let expected = || format!("'{text}' is not a size from 1KiB to 1GiB, expected one such as 16KiB");
    parse_size(text).filter(|bytes| bounds.contains(bytes)).ok_or_else(expected)
}

pub(super) fn threads(text: &str) -> Result<usize, String> {
    let expected = || format!("a number of event loops from 1 to {THREADS_MAX}");
    number(text)
        .filter(|threads| (1..=THREADS_MAX as u64).contains(threads))
        .map(|n| n as usize)
        .ok_or_else(expected)
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "true or false".to_owned())
}

pub(super) fn timeout_ms(text: &str) -> Result<u64, String> {
    let expected = || format!("a number of milliseconds from 1 to {TIMEOUT_MS_MAX}");
    number(text).filter(|timeout_ms| (1..=TIMEOUT_MS_MAX).contains(timeout_ms)).ok_or_else(expected)
}

/// How long a request takes that is told in the log; `None` if none is.
pub(super) fn slow_request_ms(text: &str) -> Result<Option<u64>, String> {
    if text == "never" || text == "0" {
        return Ok(None);
    }
    let slow_ms = Ttl::parse(text.as_bytes()).ok().map(Ttl::ms).filter(|slow_ms| *slow_ms <= TIMEOUT_MS_MAX);
    slow_ms.map(Some).ok_or_else(|| "a time from 1ms to 1d, such as 200ms or 2s, or never".to_owned())
}

/// For how long the log is kept; `None` if it is not.
pub(super) fn keep_log_ms(text: &str) -> Result<Option<u64>, String> {
    if text == "never" || text == "0" {
        return Ok(None);
    }
    let keep_ms = Ttl::parse(text.as_bytes()).ok().map(Ttl::ms);
    let keep_ms = keep_ms.filter(|keep_ms| (1_000..=KEEP_LOG_MS_MAX).contains(keep_ms));
    keep_ms.map(Some).ok_or_else(|| "a time from 1s to 366d, such as 6h or 1d, or never".to_owned())
}

pub(super) fn log(text: &str) -> Result<Targets, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    // A word that is no level would be taken for a target: everything of that target is logged, and nothing of any other.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let is_known = |part: &str| match part.rsplit_once('=') {
        None => is_level(part),
        Some((target, level)) => !target.is_empty() && is_level(level),
    };
    let known = parts.iter().all(|part| is_known(part)).then(|| parts.join(",").parse().ok()).flatten();
    known.ok_or_else(|| {
        "off, error, warn, info, debug or trace, or a list such as warn,ladoga_storage=debug".to_owned()
    })
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

const UNITS: [(&str, u32); 8] =
    [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// A number of bytes, with a unit or without.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    size(text)?.try_into().ok()
}

/// The same of any length, so that one that is too large can be told from one that is none.
fn size(text: &str) -> Option<u128> {
    let with_unit = UNITS.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (count, shift) = with_unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 0));
    let count = count.trim_end();
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| count.parse().unwrap_or(u128::MAX).saturating_mul(1 << shift))
}

/// A number of bytes as a person would write it.
pub(crate) fn format_size(bytes: u64) -> String {
    for (unit, shift) in UNITS[..4].iter().rev() {
        let whole = bytes >> shift;
        if whole >= 1 && bytes == whole << shift {
            return format!("{whole}{unit}");
        }
    }
    match bytes {
        0..1_024 => format!("{bytes}B"),
        1_024..1_048_576 => format!("{:.1}KiB", bytes as f64 / 1_024.0),
        _ => format!("{:.1}MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("16777216", 16 << 20),
            ("65536KiB", 64 << 20),
            ("512MiB", 512 << 20),
            ("512 MiB", 512 << 20),
            ("512M", 512 << 20),
            ("4GiB", 4 << 30),
            ("100000000B", 100_000_000),
        ] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
        for text in ["", "B", "MiB", "-1", "+16777216", "1.5GiB", "12 parsecs", "16777215"] {
            let expected = "at least 16MiB, as a size such as 512MiB, 4GiB or 500000000";
            assert_eq!(memory(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(memory("64TiB"), Ok(MEMORY_BYTES_MAX));
        for text in ["70368744177665", "65TiB", "99999999999TiB", &"9".repeat(50)] {
            assert_eq!(memory(text), Err("at most 64TiB".to_owned()), "{text}");
        }
        assert_eq!(parse_size(&"9".repeat(50)), None);
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_fits() {
        assert_eq!(format_size(64 << 20), "64MiB");
        assert_eq!(format_size(4 << 30), "4GiB");
        assert_eq!(format_size(48 << 10), "48KiB");
        assert_eq!(format_size((16 << 20) + 1), "16.0MiB");
        assert_eq!((format_size(12_345), format_size(1_023)), ("12.1KiB".to_owned(), "1023B".to_owned()));
    }

    #[test]
    fn a_listening_address_has_a_host_and_a_port() {
        let (written, addresses) = listen("127.0.0.1:80").expect("an address");
        assert_eq!((written.host.as_str(), written.port), ("127.0.0.1", 80));
        assert_eq!(addresses, [SocketAddr::from((Ipv4Addr::LOCALHOST, 80))]);
        assert_eq!(HostAndPort::parse("[::1]:80"), Some(HostAndPort { host: "::1".into(), port: 80 }));
        for text in
            ["", "h", "h:", ":80", "h:65536", "h:http", "h:+80", "::1:80", "[]:80", "[h]:80", "a:b:80"]
        {
            assert_eq!(HostAndPort::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_without_a_host_is_answered_with_its_port() {
        for (text, port) in
            [("6379", 6_379), (":6379", 6_379), ("6379:", 8_080), ("h", 8_080), ("99999", 8_080)]
        {
            assert_eq!(listen(text), Err(format!("HOST:PORT, such as 127.0.0.1:{port}")), "{text}");
        }
    }

    #[test]
    fn what_is_logged_is_a_level_or_a_list_of_levels_by_target() {
        for text in ["off", "warn", "DEBUG", "ladoga_storage=debug", "warn, ladoga_storage=debug,hyper=off"] {
            assert!(log(text).is_ok(), "{text}");
        }
        let targets = log("warn, ladoga_storage=debug").expect("a list");
        assert!(targets.would_enable("ladoga_storage::engine", &tracing::Level::DEBUG));
        assert!(!targets.would_enable("ladoga_node", &tracing::Level::INFO));
        for text in ["", "zzz", "warn,zzz", "warn,", "ladoga_storage", "ladoga_storage=", "=warn", "a=b=warn"]
        {
            assert!(log(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slow_request_has_a_time_or_there_is_none() {
        assert_eq!([slow_request_ms("0"), slow_request_ms("never")], [Ok(None), Ok(None)]);
        assert_eq!([slow_request_ms("200ms"), slow_request_ms("1d")], [Ok(Some(200)), Ok(Some(86_400_000))]);
        for text in ["", "1", "-1s", "0ms", "2d", "1.5s", "Never", "18446744073709551615d"] {
            assert!(slow_request_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn log_is_kept_for_a_time_or_not_at_all() {
        assert_eq!([keep_log_ms("0"), keep_log_ms("never")], [Ok(None), Ok(None)]);
        assert_eq!([keep_log_ms("1s"), keep_log_ms("7d")], [Ok(Some(1_000)), Ok(Some(604_800_000))]);
        for text in ["", "1", "-1s", "999ms", "367d", "always", "18446744073709551615d"] {
            assert!(keep_log_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(threads("1"), Ok(1));
        for text in ["0", "1025", "-1", "1.5", "two", "", "+1"] {
            assert!(threads(text).is_err(), "{text}");
        }
        assert!(timeout_ms("0").is_err());
        assert_eq!(timeout_ms("300"), Ok(300));
        assert_eq!(durability("never"), Ok(Durability::Never));
        assert!(durability("Always").is_err());
    }
}
