use ladoga_runtime::CommandKind;

/// A command: what clients may say, and how much of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// In small letters.
    pub(super) name: &'static str,
    pub(super) verb: Verb,
    /// How many arguments it takes, its name included; at least so many if it is negative.
    pub(super) arity: i64,
    /// What clients may want to know about it.
    pub(super) flags: &'static [&'static str],
    /// The first and the last argument that is a key, counted from the end if it is negative, and how far they are apart.
    pub(super) keys: (i64, i64, i64),
    /// As what it is counted.
    pub(super) kind: CommandKind,
    /// Whether it is about its connection, and not about what is stored.
    pub(super) is_of_session: bool,
}

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Acl,
    Append,
    Auth,
    Client,
    Cluster,
    Command,
    Config,
    Copy,
    DbSize,
    Decr,
    DecrBy,
    Del,
    DelEx,
    Digest,
    Discard,
    Echo,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    ExpireTime,
    Flush,
    Get,
    GetDel,
    GetEx,
    GetRange,
    GetSet,
    Hello,
    Incr,
    IncrBy,
    IncrByFloat,
    Info,
    Keys,
    LadogaReplicas,
    Latency,
    Lolwut,
    Memory,
    MGet,
    Module,
    MSet,
    MSetNx,
    Multi,
    Object,
    Persist,
    PExpire,
    PExpireAt,
    PExpireTime,
    Ping,
    PSetEx,
    PTtl,
    Quit,
    RandomKey,
    Rename,
    RenameNx,
    Reset,
    Scan,
    Select,
    Set,
    SetEx,
    SetNx,
    SetRange,
    SlowLog,
    StrLen,
    SubStr,
    Time,
    Touch,
    Ttl,
    Type,
    Unlink,
    Unwatch,
    Wait,
    Watch,
}

/// The longest name.
const NAME_BYTES_MAX: usize = 16;

/// Every command there is, by name.
pub(super) const COMMANDS: [Command; 73] = [
    new("acl", Verb::Acl, -2, &["noscript", "loading", "stale"], (0, 0, 0), CommandKind::Other, true),
    new("append", Verb::Append, 3, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new(
        "auth",
        Verb::Auth,
        -2,
        &["noscript", "loading", "stale", "fast", "no_auth"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("client", Verb::Client, -2, &["noscript", "loading", "stale"], (0, 0, 0), CommandKind::Other, true),
    new("cluster", Verb::Cluster, -2, &["loading", "stale"], (0, 0, 0), CommandKind::Other, false),
    new("command", Verb::Command, -1, &["loading", "stale"], (0, 0, 0), CommandKind::Other, false),
    new(
        "config",
        Verb::Config,
        -2,
        &["admin", "noscript", "loading", "stale"],
        (0, 0, 0),
        CommandKind::Other,
        false,
    ),
    new("copy", Verb::Copy, -3, &["write", "denyoom"], (1, 2, 1), CommandKind::Write, false),
    new("dbsize", Verb::DbSize, 1, &["readonly", "fast"], (0, 0, 0), CommandKind::Range, false),
    new("decr", Verb::Decr, 2, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("decrby", Verb::DecrBy, 3, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("del", Verb::Del, -2, &["write"], (1, -1, 1), CommandKind::Write, false),
    new("delex", Verb::DelEx, -2, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("digest", Verb::Digest, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new(
        "discard",
        Verb::Discard,
        1,
        &["noscript", "loading", "stale", "fast"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("echo", Verb::Echo, 2, &["loading", "stale", "fast"], (0, 0, 0), CommandKind::Other, false),
    new("exec", Verb::Exec, 1, &["noscript", "loading", "stale"], (0, 0, 0), CommandKind::Other, true),
    new("exists", Verb::Exists, -2, &["readonly", "fast"], (1, -1, 1), CommandKind::Read, false),
    new("expire", Verb::Expire, -3, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("expireat", Verb::ExpireAt, -3, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("expiretime", Verb::ExpireTime, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("flushall", Verb::Flush, -1, &["write"], (0, 0, 0), CommandKind::Write, false),
    new("flushdb", Verb::Flush, -1, &["write"], (0, 0, 0), CommandKind::Write, false),
    new("get", Verb::Get, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("getdel", Verb::GetDel, 2, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("getex", Verb::GetEx, -2, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("getrange", Verb::GetRange, 4, &["readonly"], (1, 1, 1), CommandKind::Read, false),
    new("getset", Verb::GetSet, 3, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new(
        "hello",
        Verb::Hello,
        -1,
        &["noscript", "loading", "stale", "fast", "no_auth"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("incr", Verb::Incr, 2, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("incrby", Verb::IncrBy, 3, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new(
        "incrbyfloat",
        Verb::IncrByFloat,
        3,
        &["write", "denyoom", "fast"],
        (1, 1, 1),
        CommandKind::Write,
        false,
    ),
    new("info", Verb::Info, -1, &["loading", "stale"], (0, 0, 0), CommandKind::Other, false),
    new("keys", Verb::Keys, 2, &["readonly"], (0, 0, 0), CommandKind::Range, false),
    new(
        "ladoga.replicas",
        Verb::LadogaReplicas,
        -1,
        &["loading", "stale", "fast"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new(
        "latency",
        Verb::Latency,
        -2,
        &["admin", "noscript", "loading", "stale"],
        (0, 0, 0),
        CommandKind::Other,
        false,
    ),
    new("lolwut", Verb::Lolwut, -1, &["readonly", "fast"], (0, 0, 0), CommandKind::Other, false),
    new("memory", Verb::Memory, -2, &["readonly"], (0, 0, 0), CommandKind::Read, false),
    new("mget", Verb::MGet, -2, &["readonly", "fast"], (1, -1, 1), CommandKind::Read, false),
    new("module", Verb::Module, -2, &["admin", "noscript"], (0, 0, 0), CommandKind::Other, false),
    new("mset", Verb::MSet, -3, &["write", "denyoom"], (1, -1, 2), CommandKind::Write, false),
    new("msetnx", Verb::MSetNx, -3, &["write", "denyoom"], (1, -1, 2), CommandKind::Write, false),
    new(
        "multi",
        Verb::Multi,
        1,
        &["noscript", "loading", "stale", "fast"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("object", Verb::Object, -2, &["readonly"], (2, 2, 1), CommandKind::Read, false),
    new("persist", Verb::Persist, 2, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("pexpire", Verb::PExpire, -3, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("pexpireat", Verb::PExpireAt, -3, &["write", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("pexpiretime", Verb::PExpireTime, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("ping", Verb::Ping, -1, &["fast"], (0, 0, 0), CommandKind::Other, false),
    new("psetex", Verb::PSetEx, 4, &["write", "denyoom"], (1, 1, 1), CommandKind::Write, false),
    new("pttl", Verb::PTtl, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new(
        "quit",
        Verb::Quit,
        -1,
        &["noscript", "loading", "stale", "fast", "no_auth"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("randomkey", Verb::RandomKey, 1, &["readonly"], (0, 0, 0), CommandKind::Range, false),
    new("rename", Verb::Rename, 3, &["write"], (1, 2, 1), CommandKind::Write, false),
    new("renamenx", Verb::RenameNx, 3, &["write", "fast"], (1, 2, 1), CommandKind::Write, false),
    new(
        "reset",
        Verb::Reset,
        1,
        &["noscript", "loading", "stale", "fast", "no_auth"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("scan", Verb::Scan, -2, &["readonly"], (0, 0, 0), CommandKind::Range, false),
    new("select", Verb::Select, 2, &["loading", "stale", "fast"], (0, 0, 0), CommandKind::Other, false),
    new("set", Verb::Set, -3, &["write", "denyoom"], (1, 1, 1), CommandKind::Write, false),
    new("setex", Verb::SetEx, 4, &["write", "denyoom"], (1, 1, 1), CommandKind::Write, false),
    new("setnx", Verb::SetNx, 3, &["write", "denyoom", "fast"], (1, 1, 1), CommandKind::Write, false),
    new("setrange", Verb::SetRange, 4, &["write", "denyoom"], (1, 1, 1), CommandKind::Write, false),
    new("slowlog", Verb::SlowLog, -2, &["admin", "loading", "stale"], (0, 0, 0), CommandKind::Other, false),
    new("strlen", Verb::StrLen, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("substr", Verb::SubStr, 4, &["readonly"], (1, 1, 1), CommandKind::Read, false),
    new("time", Verb::Time, 1, &["loading", "stale", "fast"], (0, 0, 0), CommandKind::Other, false),
    new("touch", Verb::Touch, -2, &["readonly", "fast"], (1, -1, 1), CommandKind::Read, false),
    new("ttl", Verb::Ttl, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("type", Verb::Type, 2, &["readonly", "fast"], (1, 1, 1), CommandKind::Read, false),
    new("unlink", Verb::Unlink, -2, &["write", "fast"], (1, -1, 1), CommandKind::Write, false),
    new(
        "unwatch",
        Verb::Unwatch,
        1,
        &["noscript", "loading", "stale", "fast"],
        (0, 0, 0),
        CommandKind::Other,
        true,
    ),
    new("wait", Verb::Wait, 3, &["noscript"], (0, 0, 0), CommandKind::Other, false),
    new(
        "watch",
        Verb::Watch,
        -2,
        &["noscript", "loading", "stale", "fast"],
        (1, -1, 1),
        CommandKind::Other,
        true,
    ),
];

const fn new(
    name: &'static str,
    verb: Verb,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    kind: CommandKind,
    is_of_session: bool,
) -> Command {
    Command { name, verb, arity, flags, keys, kind, is_of_session }
}

/// The command of this name, in whatever letters.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    let small = &*small;
    let at = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(small)).ok()?;
    Some(&COMMANDS[at])
}

impl Command {
    /// Whether it may have so many arguments.
    pub(super) const fn takes(&self, arguments: usize) -> bool {
        if self.arity >= 0 { arguments as i64 == self.arity } else { arguments as i64 >= -self.arity }
    }

    /// Whether it changes what is stored.
    pub(super) fn is_write(&self) -> bool {
        self.flags.contains(&"write")
    }

    /// Which of so many arguments are keys.
    pub(super) fn key_positions(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { arguments as i64 + last } else { last };
        let has_keys = first > 0;
        (first..=last)
            .step_by(step.max(1) as usize)
            .filter(move |_| has_keys)
            .map(|position| position as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_found_in_any_letters() {
        assert!(COMMANDS.is_sorted_by(|one, next| one.name < next.name));
        assert!(COMMANDS.iter().all(|command| command.name.len() <= NAME_BYTES_MAX));
        for command in &COMMANDS {
            assert_eq!(find(command.name.to_uppercase().as_bytes()), Some(command));
        }
        for name in ["", "gett", "ge", "a name that is longer than any", "g\0t"] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let positions = |name: &str, arguments| {
            find(name.as_bytes()).map(|command| command.key_positions(arguments).collect())
        };
        assert_eq!(positions("mset", 5), Some(vec![1, 3]));
        assert_eq!(positions("get", 2), Some(vec![1]));
        assert_eq!(positions("del", 4), Some(vec![1, 2, 3]));
        assert_eq!(positions("ping", 1), Some(vec![]));
    }
}
