//! What is measured of a command: how long it takes, which keys it asks for, and whether it was slow.

use ladoga_resp::Request;
use ladoga_runtime::{AccessKind, CommandKind};

use super::served::Served;
use super::table::Command;
use crate::connection::Core;
use crate::door::Door;
use crate::slow::{About, SlowRequest};

/// What the log calls a command that there is not.
const UNKNOWN: &str = "unknown";

/// By what a command is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) kind: CommandKind,
    pub(super) started_ns: u64,
    /// What the log has of it if it was slow.
    pub(super) name: &'static str,
    pub(super) about: About,
}

impl Measured {
    /// A request that names no command.
    pub(super) fn unknown(started_ns: u64) -> Measured {
        Measured { kind: CommandKind::Other, started_ns, name: UNKNOWN, about: About::default() }
    }

    /// A command that is not about a key, or was refused.
    pub(super) fn of(command: &Command, started_ns: u64) -> Measured {
        Measured { kind: command.kind, started_ns, name: command.name, about: About::default() }
    }

    /// A command that may ask for its keys, which are counted.
    pub(super) fn of_keys(core: &Core, command: &Command, request: &Request, started_ns: u64) -> Measured {
        let measured = Measured::of(command, started_ns);
        let kind = match command.kind {
            CommandKind::Read => AccessKind::Read,
            CommandKind::Write => AccessKind::Write,
            CommandKind::Range | CommandKind::Other => return measured,
        };
        let mut keys = command.key_positions(request.len()).filter_map(|position| request.get(position));
        let Some(first) = keys.next() else { return measured };
        core.count_access(kind, first);
        keys.for_each(|key| core.count_access(kind, key));
        Measured { about: About::key(first), ..measured }
    }
    /// Counts the command, now that it is known what it is replied, and has the log tell of it if it was slow.
    pub(super) fn end<K>(self, door: &Door<K>, served: &Served) {
        let core = &door.core;
        let now_ns = core.clock.monotonic_ns();
        let total_ns = now_ns.saturating_sub(self.started_ns);
        core.metrics.command_served(self.kind, served.is_error(), total_ns);
        if core.slow.is_slow(total_ns) {
            self.tell_slow(door, served, (total_ns, now_ns));
        }
    }

    #[cold]
    fn tell_slow<K>(self, door: &Door<K>, served: &Served, (total_ns, now_ns): (u64, u64)) {
        door.core.metrics.slow_request();
        let rest = match self.kind {
            CommandKind::Read | CommandKind::Range => door.reads_from(),
            CommandKind::Write => door.writes_to(),
            CommandKind::Other => "node",
        };
        let request = SlowRequest {
            method: self.name,
            route: "redis",
            about: self.about,
            status: if served.is_error() { "error" } else { "ok" },
            received_bytes: None,
            sent_bytes: None,
            total_ns,
            waits: None,
            rest,
        };
        door.core.slow.tell(now_ns, &request);
    }
}
