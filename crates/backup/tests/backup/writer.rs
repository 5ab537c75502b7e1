use std::io::ErrorKind::NotFound;
use std::path::Path;

use ladoga_backup::{
    Error, LogListing, LogPosition, LogSource, PIECE_BYTES_MAX, Repository, Shipped, restore_at,
};
use ladoga_env::sim::SimClock;
use ladoga_env::{Env, OpenMode, is_out_of_descriptors};
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::{LogFile, Options};

use crate::support::{Machine, Model, Node, REPOSITORY, found, note, options, repository};

pub(crate) const STORE: u128 = 7;
pub(crate) const KEEP_MS: u64 = 3_600_000;

pub(crate) fn keeping() -> Options {
    Options { keep_log_ms: Some(KEEP_MS), ..options() }
}

/// A node that keeps its log, and everything that was ever written to it.
pub(crate) struct Writer {
    pub(crate) node: Node,
    pub(crate) clock: SimClock,
    pub(crate) history: Vec<(Vec<u8>, Stamp, Option<Vec<u8>>)>,
    pub(crate) last: u64,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Writer {
        let node = Node::with(seed, keeping());
        let clock = node.machine.clock.clone();
        Writer { node, clock, history: Vec::new(), last: 0 }
    }

    /// The last millisecond that is over.
    pub(crate) fn past_ms(&self) -> u64 {
        self.now_ms() - 1
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.node.machine.env().clock.wall_ms()
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.clock.advance(std::time::Duration::from_millis(ms));
    }

    pub(crate) fn write(&mut self, key: u64, value: Option<&[u8]>, expires_at_ms: u64) {
        self.last = HybridClock::following(self.last, self.now_ms());
        let version = Version { timestamp: self.last, node: 0 };
        let stamp = Stamp { expires_at_ms, ..Stamp::new(version) };
        let key = format!("key{key:03}").into_bytes();
        // Before it is written: if the power goes, it may be there or not.
        self.history.push((key.clone(), stamp, value.map(<[u8]>::to_vec)));
        self.node.write(&key, stamp, value);
    }

    /// Writes, deletes and lets expire; large values now and then.
    pub(crate) fn write_some(&mut self, env: &Env, count: u64) {
        for _ in 0..count {
            let (key, kind) = (env.rng.below(30), env.rng.below(40));
            let value = vec![env.rng.next_u64() as u8; env.rng.below(500) as usize];
            let soon = self.now_ms() + 50;
            match kind {
                0..6 => self.write(key, None, 0),
                6..10 => self.write(key, Some(&value), soon),
                10 => self.write(key, Some(&vec![value.len() as u8; 300_000]), 0),
                _ => self.write(key, Some(&value), 0),
            }
            self.pass_ms(env.rng.below(3));
            if env.rng.below(4) == 0 {
                self.node.work();
            }
        }
    }

    pub(crate) fn model_at(&self, at_ms: u64) -> Model {
        let mut model = Model::new();
        for (key, stamp, value) in &self.history {
            if HybridClock::wall_ms(stamp.version.timestamp) <= at_ms {
                note(&mut model, key, *stamp, value.as_deref());
            }
        }
        model
    }

    /// Everything up to now, when the millisecond is over.
    pub(crate) fn ship(&self, env: &Env) -> Result<Shipped, Error> {
        self.pass_ms(1);
        let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY))?;
        done(repository.ship(&writing, ("http://node", u64::MAX), &mut self.log()))
    }

    pub(crate) fn log(&self) -> NodeLog<'_> {
        NodeLog { writer: self, flip: None }
    }

    /// A backup, as the command takes it: the files, then the log.
    pub(crate) fn back_up(&self, env: &Env) -> Result<String, Error> {
        let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY))?;
        let (listing, mut source, sequence) = self.node.checkpoint_within_log();
        let taken_ms = self.now_ms();
        self.pass_ms(1);
        let of = ("http://node", taken_ms);
        let (mut node, _) = repository.take(&writing, of, &listing, &mut source, &mut |_| {})?;
        let shipped = done(repository.ship(&writing, ("http://node", u64::MAX), &mut self.log()))?;
        let chain = shipped.chain.expect("a chain");
        assert!(chain.has_all_from(sequence));
        node.log = Some(LogPosition { chain: chain.name, sequence });
        let id = repository.new_id(env)?;
        let backup = ladoga_backup::Backup {
            id: id.clone(),
            begun_ms: taken_ms,
            ended_ms: taken_ms,
            cluster: Vec::new(),
            ack: 1,
            missing: Vec::new(),
            nodes: vec![node],
        };
        repository.publish(&writing, &backup)?;
        Ok(id)
    }
}

/// What was fetched, if all was.
pub(crate) fn done((shipped, done): (Shipped, Result<(), Error>)) -> Result<Shipped, Error> {
    done.map(|()| shipped)
}

/// What a node sends, a few segments and bytes at a time.
pub(crate) struct NodeLog<'w> {
    pub(crate) writer: &'w Writer,
    /// The byte of which file that is another one when it arrives.
    pub(crate) flip: Option<(LogFile, u64)>,
}

impl LogSource for NodeLog<'_> {
    fn list(&mut self, after: u64) -> Result<LogListing, Error> {
        let (engine, reaches_ms) = (self.writer.node.engine(), self.writer.past_ms());
        let end_sequence = engine.seal_log()?.expect("it keeps its log");
        let segments = engine.kept_log(after, 3);
        Ok(LogListing { store: STORE, reaches_ms, end_sequence, member: None, segments })
    }

    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        assert!(bytes_max <= PIECE_BYTES_MAX);
        let failed = |error: std::io::Error| match error.raw_os_error() {
            code if is_out_of_descriptors(code) => Error::Source(error.to_string()),
            _ => Error::Unreadable(error.to_string()),
        };
        let file_name = LogFile::parse(&file.name()).expect("its own name");
        let path = self.writer.node.engine().kept_log_path(file_name);
        let absent = || Error::Absent(format!("there is no {}", file.name()));
        let open = self.writer.node.machine.env().disk.open(&path.ok_or_else(absent)?, OpenMode::Read);
        let open = open.map_err(|error| if error.kind() == NotFound { absent() } else { failed(error) })?;
        let left = open.len().map_err(failed)?.saturating_sub(offset);
        let mut bytes = vec![0; left.min(bytes_max as u64).min(1_777) as usize];
        open.read_exact_at(&mut bytes, offset).map_err(failed)?;
        if let Some((flipped, at)) = self.flip
            && flipped == file
            && (offset..offset + bytes.len() as u64).contains(&at)
        {
            bytes[(at - offset) as usize] ^= 1;
        }
        Ok(bytes)
    }
}

pub(crate) fn restored(env: &Env, at_ms: u64, target: &str) -> Result<Model, Error> {
    restore_at(env, &repository(env), (at_ms, None), Path::new(target), &mut |_| {})?;
    Ok(found(env, Path::new(target))?)
}

pub(crate) fn span(env: &Env, id: &str) -> (u64, u64) {
    let repository = repository(env);
    let backup = repository.backup(id).expect("a backup");
    let span = repository.span(&backup).expect("a log").expect("a span");
    (span.from_ms, span.until_ms)
}

pub(crate) fn copy(from: &Machine, to: &Machine) {
    for path in from.disk.paths() {
        to.disk.plant(&path, &from.disk.read_file(&path).expect("a file"));
    }
}
