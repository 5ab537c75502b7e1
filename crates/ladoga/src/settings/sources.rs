use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ladoga_http1::masked;
use toml::{Table, Value};

use super::SettingError;
use crate::arguments::ServeFlags;

/// Settings that have a flag, a variable and a key.
const WITH_FLAG: [&str; 37] = [
    "listen",
    "resp",
    "resp_flush",
    "data",
    "cluster",
    "advertise",
    "fsync",
    "memory",
    "threads",
    "slow_request",
    "keep_log",
    "tokens",
    "peer_secret",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "peer_ca",
    "insecure",
    "allow_host",
    "audit",
    "audit_writes",
    "engine",
    "cassandra_nodes",
    "cassandra_user",
    "cassandra_password_file",
    "cassandra_datacenter",
    "cassandra_keyspace",
    "cassandra_replicas",
    "cassandra_writes",
    "cassandra_tls_ca",
    "otlp",
    "otlp_sample",
    "otlp_service",
    "otlp_headers_file",
    "otlp_ca",
    "otlp_cert",
    "otlp_key",
];
/// Settings that have a variable and a key.
const WITHOUT_FLAG: [&str; 14] = [
    "request_timeout_ms",
    "answer_timeout_ms",
    "idle_timeout_ms",
    "drain_timeout_ms",
    "peer_connect_timeout_ms",
    "peer_timeout_ms",
    "quorum_timeout_ms",
    "clock_ahead_ms_max",
    "changes_keep_ms",
    "cassandra_pieces_keep_ms",
    "otlp_timeout_ms",
    "disk_reads",
    "log",
    "log_format",
];

/// Those that somebody might write with a name and a password.
const URLS: [&str; 6] = ["listen", "resp", "cluster", "advertise", "cassandra_nodes", "otlp"];

/// Variables of OpenTelemetry that count if nothing else says what is set. A build without traces leaves them alone: who runs many
/// programs sets them for all.
const CONVENTIONAL: [(&str, &[&str]); 8] = [
    ("otlp", &[TRACES_ENDPOINT, "OTEL_EXPORTER_OTLP_ENDPOINT"]),
    ("otlp_service", &["OTEL_SERVICE_NAME"]),
    ("otlp_sampler", &["OTEL_TRACES_SAMPLER"]),
    ("otlp_sampler_arg", &["OTEL_TRACES_SAMPLER_ARG"]),
    ("otlp_timeout_ms", &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]),
    ("otlp_ca", &["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"]),
    ("otlp_cert", &["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"]),
    ("otlp_key", &["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"]),
];
/// The one whose URL is the whole one.
pub(super) const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Those by which they are switched off, and how.
const CONVENTIONAL_OFF: [(&str, &str); 2] = [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")];

/// The variables of all settings.
pub(super) fn variables() -> impl Iterator<Item = String> {
    WITH_FLAG.into_iter().chain(WITHOUT_FLAG).map(variable_name)
}

fn variable_name(setting: &str) -> String {
    format!("LADOGA_{}", setting.to_uppercase())
}

/// A setting as it was written.
struct Written {
    /// Its source, for error messages.
    name: String,
    text: String,
}

/// All settings, from all sources.
pub(super) struct Sources {
    written: BTreeMap<&'static str, Written>,
    /// Settings of the file that a flag or a variable overrides.
    overridden: Vec<(&'static str, Written)>,
}

impl Sources {
    /// What the flags, the environment of this process and the file say.
    pub(super) fn of_process(flags: &ServeFlags) -> Result<Sources, SettingError> {
        let variable = |name: &str| std::env::var_os(name);
        let file = flags.config.clone().or_else(|| variable("LADOGA_CONFIG").map(PathBuf::from));
        let table = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let file_name = file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        Sources::merge(flags, variable, &file_name, &table)
    }

    #[cfg(test)]
    pub(super) fn of(flags: &ServeFlags, env: &[(&str, &str)], file: &str) -> Result<Sources, SettingError> {
        let variable =
            |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let table = parse_file("ladoga.toml", file)?;
        Sources::merge(flags, variable, "ladoga.toml", &table)
    }

    fn merge(
        flags: &ServeFlags,
        variable: impl Fn(&str) -> Option<OsString>,
        file_name: &str,
        table: &Table,
    ) -> Result<Sources, SettingError> {
        let mut sources = Sources { written: BTreeMap::new(), overridden: Vec::new() };
        check_keys(table, file_name)?;
        for name in WITH_FLAG.into_iter().chain(WITHOUT_FLAG) {
            let from_file = table
                .get(name)
                .map(|value| Written { name: format!("{name} in {file_name}"), text: text(value) });
            let variable_name = variable_name(name);
            let from_environment = || variable(&variable_name).map(|text| Written::of(&variable_name, text));
            let from_flag =
                flag(flags, name).map(|text| Written::of(&format!("--{}", name.replace('_', "-")), text));
            let over_file = from_flag.or_else(from_environment).transpose()?;
            let (written, overridden) = match (over_file, from_file) {
                (Some(written), overridden) => (Some(written), overridden),
                (None, written) => (written, None),
            };
            sources.written.extend(written.map(|written| (name, written)));
            sources.overridden.extend(overridden.map(|written| (name, written)));
        }
        if cfg!(feature = "otel") {
            sources.add_conventional(variable);
        }
        Ok(sources)
    }

    /// Adds what variables of OpenTelemetry say. Nothing but a URL switches anything on. A certificate and its key come from one place.
    fn add_conventional(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        let read = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let read = |name: &str| read(name).filter(|value| !value.is_empty());
        let is_off =
            |(name, off): &(&str, &str)| read(name).is_some_and(|value| value.eq_ignore_ascii_case(off));
        let is_off = CONVENTIONAL_OFF.iter().any(is_off);
        let has_identity = ["otlp_cert", "otlp_key"].iter().any(|name| self.written.contains_key(name));
        for (name, variables) in CONVENTIONAL {
            let is_decided = match name {
                "otlp_cert" | "otlp_key" => has_identity,
                "otlp_sampler" | "otlp_sampler_arg" => self.written.contains_key("otlp_sample"),
                name => self.written.contains_key(name),
            };
            let counts = if name == "otlp" { !is_off } else { self.written.contains_key("otlp") };
            if is_decided || !counts {
                continue;
            }
            if let Some((variable, text)) = variables.iter().find_map(|name| Some((*name, read(name)?))) {
                self.written.insert(name, Written { name: variable.to_owned(), text });
            }
        }
    }

    /// The source of a setting, if it was set.
    pub(super) fn name(&self, name: &str) -> Option<&str> {
        self.written.get(name).map(|written| written.name.as_str())
    }

    /// Whether keys live elsewhere than in the data directory.
    pub(super) fn is_on_another_engine(&self) -> bool {
        self.written.get("engine").is_some_and(|written| written.text != "embedded")
    }

    /// A setting, parsed by `parse`, whose error tells what it expects.
    pub(super) fn get<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingError> {
        self.written.get(name).map(|written| written.parse(name, parse)).transpose()
    }

    /// Has `check` look at what does not count this time: a mistake in the file would otherwise show on the day on which it does.
    pub(super) fn check_overridden(
        &self,
        check: impl Fn(&str, &str) -> Result<(), String>,
    ) -> Result<(), SettingError> {
        let check = |(name, written): &(&'static str, Written)| written.parse(name, |text| check(name, text));
        self.overridden.iter().try_for_each(check)
    }
}

impl Written {
    fn of(name: &str, text: OsString) -> Result<Written, SettingError> {
        let name = name.to_owned();
        match text.into_string() {
            Ok(text) => Ok(Written { name, text }),
            Err(text) => {
                let value = text.to_string_lossy().into_owned();
                Err(SettingError { name, value, expected: "text in UTF-8".to_owned() })
            }
        }
    }

    /// `name` is that of the setting, wherever it was written.
    fn parse<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, SettingError> {
        let value = || if URLS.contains(&name) { masked(&self.text) } else { self.text.clone() };
        let failed = |expected| SettingError { name: self.name.clone(), value: value(), expected };
        parse(&self.text).map_err(failed)
    }
}

/// A flag, as it was typed.
fn flag(flags: &ServeFlags, name: &str) -> Option<OsString> {
    let path = path_flag(flags, name).map(|path| path.clone().into_os_string());
    path.or_else(|| text_flag(flags, name).map(OsString::from))
}

fn path_flag<'f>(flags: &'f ServeFlags, name: &str) -> Option<&'f PathBuf> {
    match name {
        "data" => flags.data.as_ref(),
        "tokens" => flags.access.tokens.as_ref(),
        "peer_secret" => flags.access.peer_secret.as_ref(),
        "tls_cert" => flags.tls.tls_cert.as_ref(),
        "tls_key" => flags.tls.tls_key.as_ref(),
        "tls_client_ca" => flags.tls.tls_client_ca.as_ref(),
        "peer_ca" => flags.tls.peer_ca.as_ref(),
        "audit" => flags.access.audit.as_ref(),
        "cassandra_password_file" => flags.cassandra.password_file.as_ref(),
        "cassandra_tls_ca" => flags.cassandra.tls_ca.as_ref(),
        "otlp_headers_file" => flags.otlp.headers_file.as_ref(),
        "otlp_ca" => flags.otlp.ca.as_ref(),
        "otlp_cert" => flags.otlp.cert.as_ref(),
        "otlp_key" => flags.otlp.key.as_ref(),
        _ => None,
    }
}

fn text_flag(flags: &ServeFlags, name: &str) -> Option<String> {
    match name {
        "listen" => flags.listen.clone(),
        "resp" => flags.resp.clone(),
        "resp_flush" => flags.resp_flush.then(|| "true".to_owned()),
        "cluster" => flags.cluster.clone(),
        "advertise" => flags.advertise.clone(),
        "fsync" => flags.fsync.clone(),
        "memory" => flags.memory.clone(),
        "threads" => flags.threads.clone(),
        "slow_request" => flags.slow_request.clone(),
        "keep_log" => flags.keep_log.clone(),
        "insecure" => flags.access.insecure.then(|| "true".to_owned()),
        "allow_host" => flags.access.allow_host.clone(),
        "audit_writes" => flags.access.audit_writes.then(|| "true".to_owned()),
        "engine" => flags.engine.clone(),
        "cassandra_nodes" => flags.cassandra.nodes.clone(),
        "cassandra_user" => flags.cassandra.user.clone(),
        "cassandra_datacenter" => flags.cassandra.datacenter.clone(),
        "cassandra_keyspace" => flags.cassandra.keyspace.clone(),
        "cassandra_replicas" => flags.cassandra.replicas.clone(),
        "cassandra_writes" => flags.cassandra.writes.clone(),
        "otlp" => flags.otlp.url.clone(),
        "otlp_sample" => flags.otlp.sample.clone(),
        "otlp_service" => flags.otlp.service.clone(),
        _ => None,
    }
}

fn read_file(file: &Path) -> Result<Table, SettingError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| SettingError {
        name: "the file of settings".to_owned(),
        value: name.clone(),
        expected: format!("a file that can be read: {error}"),
    })?;
    parse_file(&name, &text)
}

fn parse_file(name: &str, text: &str) -> Result<Table, SettingError> {
    text.parse().map_err(|error: toml::de::Error| {
        // The library's own text has the whole line, with what may be a secret in it.
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        SettingError {
            name: "the file of settings".to_owned(),
            value: name.to_owned(),
            expected: format!("TOML, and line {line} is none: {}", error.message()),
        }
    })
}

fn check_keys(table: &Table, file_name: &str) -> Result<(), SettingError> {
    let is_known = |key: &str| WITH_FLAG.contains(&key) || WITHOUT_FLAG.contains(&key);
    match table.iter().find(|(key, _)| !is_known(key)) {
        None => Ok(()),
        // Its value stays unsaid: nobody knows whether it is a secret.
        Some((key, _)) => Err(SettingError {
            name: "the file of settings".to_owned(),
            value: file_name.to_owned(),
            expected: format!(
                "known keys, and {key} is none: one of {}",
                [&WITH_FLAG[..], &WITHOUT_FLAG[..]].concat().join(", ")
            ),
        }),
    }
}

/// A value of the file, in the form of the command line.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn file(text: &str) -> Result<Sources, String> {
        Sources::of(&ServeFlags::default(), &[], text).map_err(|error| error.to_string())
    }

    /// It named another directory than `ladoga restore` and `check` did.
    #[test]
    fn a_path_that_is_no_text_is_refused() {
        let flags = ServeFlags {
            data: Some(OsString::from_vec(b"vol\xff".to_vec()).into()),
            ..ServeFlags::default()
        };
        let error = Sources::of(&flags, &[], "").err().expect("an error").to_string();
        assert!(error.contains("--data") && error.contains("text in UTF-8"), "{error}");
    }

    #[test]
    fn a_file_with_other_keys_is_refused() {
        for (text, named) in
            [("memroy = \"s3cret\"", "memroy"), ("[server]\npassword = \"s3cret\"", "server")]
        {
            let error = file(text).err().expect("refused");
            let told = format!(
                "the file of settings is 'ladoga.toml', expected known keys, and {named} is none: one of "
            );
            assert!(error.starts_with(&told) && !error.contains("s3cret"), "{error}");
            for key in ["fsync", "log_format", "disk_reads", "drain_timeout_ms"] {
                assert!(error.contains(key), "{key} in {error}");
            }
        }
        let error = file("threads = 1\npassword = \"s3cret\" s3cret").err().expect("refused");
        assert!(
            error.starts_with("the file of settings is 'ladoga.toml', expected TOML, and line 2 is none: "),
            "{error}"
        );
        assert!(!error.contains("s3cret") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn an_array_is_a_list() {
        let sources = file("cluster = [\"a\", \"b\"]").expect("sources");
        assert_eq!(sources.get("cluster", |text| Ok(text.to_owned())), Ok(Some("a,b".to_owned())));
        assert_eq!(sources.get("listen", |text| Ok(text.to_owned())), Ok(None));
    }
}
