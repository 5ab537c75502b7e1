//! What is measured of a command: how long it takes, which keys it asks for, and whether it was slow.

use ladoga_model::{Replicas, TraceContext};
use ladoga_resp::Request;
use ladoga_runtime::{AccessKind, CommandKind, SpanFacts, SpanKind, Traces};

use super::table::{Command, Verb};
use crate::connection::Core;
use crate::door::Door;
use crate::slow::{About, SlowRequest};
use crate::traced::Traced;

/// What the log calls a command that there is not.
const UNKNOWN: &str = "unknown";

/// By what a command is counted.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) kind: CommandKind,
    pub(super) started_ns: u64,
    /// When the last of its bytes that were waited for had arrived.
    pub(super) arrived_ns: u64,
    /// What the log has of it if it was slow.
    pub(super) name: &'static str,
    pub(super) about: About,
    /// If its trace is recorded.
    pub(super) traced: Option<Box<Traced>>,
}

impl Measured {
    /// A request that names no command.
    pub(super) fn unknown(started_ns: u64) -> Measured {
        let about = About::default();
        Measured {
            kind: CommandKind::Other,
            started_ns,
            arrived_ns: started_ns,
            name: UNKNOWN,
            about,
            traced: None,
        }
    }

    /// A command that is not about a key, or was refused.
    pub(super) fn of(command: &Command, started_ns: u64) -> Measured {
        let about = About::default();
        Measured {
            kind: command.kind,
            started_ns,
            arrived_ns: started_ns,
            name: command.name,
            about,
            traced: None,
        }
    }

    /// A command that may ask for its keys, which are counted.
    pub(super) fn of_keys(core: &Core, command: &Command, request: &Request, started_ns: u64) -> Measured {
        let measured = Measured {
            traced: begin_traced(core, command.kind, started_ns),
            ..Measured::of(command, started_ns)
        };
        let kind = match command.kind {
            CommandKind::Read => AccessKind::Read,
            CommandKind::Write => AccessKind::Write,
            CommandKind::Range | CommandKind::Other => return measured,
        };
        let mut keys = command.key_positions(request.len()).filter_map(|position| request.get(position));
        let Some(first) = keys.next() else { return measured };
        core.count_access(kind, first);
        keys.for_each(|key| core.count_access(kind, key));
        let mut measured = Measured { about: About::key(first), ..measured };
        if let Some(traced) = &mut measured.traced {
            traced.note_key(first);
        }
        measured
    }

    /// One whose value does not fit into memory, on its way in.
    pub(super) fn of_upload(core: &Core, command: &Command, key: &[u8], started_ns: u64) -> Measured {
        let mut traced = begin_traced(core, command.kind, started_ns);
        if let Some(traced) = &mut traced {
            traced.note_key(key);
        }
        Measured { about: About::key(key), traced, ..Measured::of(command, started_ns) }
    }

    /// Its span, for what is done for it on so many replicas.
    pub(super) fn trace(&mut self, replicas: Replicas) -> Option<TraceContext> {
        self.traced.as_mut().map(|traced| traced.of_replicas(replicas))
    }

    /// Its client was waited for, and sent more of it.
    pub(super) fn note_arrival(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    /// How long it took from its last byte on, and in all.
    pub(super) fn durations_ns(&self, now_ns: u64) -> (u64, u64) {
        (now_ns.saturating_sub(self.arrived_ns), now_ns.saturating_sub(self.started_ns))
    }

    /// Counts the command, now that it is known whether it is replied an error, and has the log tell of it if it was slow.
    pub(super) fn end<K>(&self, door: &Door<K>, is_error: bool) {
        let core = &door.core;
        let now_ns = core.clock.monotonic_ns();
        let (served_ns, total_ns) = self.durations_ns(now_ns);
        core.metrics.command_served(self.kind, is_error, served_ns);
        if core.slow.is_slow(total_ns) {
            self.tell_slow(door, is_error, (total_ns, now_ns));
        }
        if let (Some(traces), Some(traced)) = (&core.traces, &self.traced) {
            end_traced(traces, traced, (self.name, is_error), now_ns);
        }
    }

    #[cold]
    fn tell_slow<K>(&self, door: &Door<K>, is_error: bool, (total_ns, now_ns): (u64, u64)) {
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
            status: if is_error { "error" } else { "ok" },
            received_bytes: None,
            sent_bytes: None,
            total_ns,
            waits: None,
            rest,
        };
        door.core.slow.tell(now_ns, &request);
    }
}

/// How long the values are that a request brings.
pub(super) fn value_bytes(verb: Verb, request: &Request) -> u64 {
    let (first, step) = match verb {
        Verb::Append | Verb::GetSet | Verb::Set | Verb::SetNx => (2, usize::MAX),
        Verb::PSetEx | Verb::SetEx | Verb::SetRange => (3, usize::MAX),
        Verb::MSet | Verb::MSetNx => (2, 2),
        _ => return 0,
    };
    (first..request.len()).step_by(step).map(|number| request[number].len() as u64).sum()
}

/// Nobody says with a command of Redis which trace it is a part of.
fn begin_traced(core: &Core, kind: CommandKind, started_ns: u64) -> Option<Box<Traced>> {
    let traces = core.traces.as_ref()?;
    if kind == CommandKind::Other {
        return None;
    }
    traces.begin(None, started_ns).map(|span| Box::new(Traced::new(span)))
}

#[cold]
fn end_traced(traces: &Traces, traced: &Traced, (name, is_error): (&'static str, bool), ended_ns: u64) {
    let mut attributes = traced.attributes();
    attributes.extend([("network.protocol.name", "redis".into()), ("ladoga.command", name.into())]);
    let failed = is_error.then_some("error".into());
    let facts = SpanFacts { attributes, failed, ..SpanFacts::new(name, SpanKind::Server) };
    traces.end(traced.span, ended_ns, facts);
}
