use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_backup::{
    Backup, Error, Listing, NodeBackup, Progress, Repository, Source, Taken, Writing, empty_slot,
};
use ladoga_env::sim::{self, PowerCut, SimClock, SimDisk};
use ladoga_env::{Disk, Env, OpenMode};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Background, Durability, Engine, Options, StoreFile, Value, WriteBatch, read_value};

pub(crate) const REPOSITORY: &str = "/backups";

/// What a store has: of each key the newest cell.
pub(crate) type Model = BTreeMap<Vec<u8>, (Stamp, Option<Vec<u8>>)>;

/// Small enough that a few dozen writes fill tables and levels.
pub(crate) fn options() -> Options {
    Options {
        background: Background::Manual,
        memtable_bytes: Some(8 << 10),
        first_segment_bytes: Some(4 << 10),
        table_bytes: Some(4 << 10),
        level_1_bytes: Some(8 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Always)
    }
}

/// A machine with the repository on its disk.
pub(crate) struct Machine {
    env: Env,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        let (env, disk, clock) = sim::env(seed);
        Machine { env, disk, clock }
    }

    /// What one process sees.
    pub(crate) fn env(&self) -> Env {
        Env { disk: Arc::new(self.disk.attached()), ..self.env.clone() }
    }
}

/// A node: a store, and what it is known to have.
pub(crate) struct Node {
    pub(crate) machine: Machine,
    /// None while it is opened anew.
    engine: Option<Engine>,
    options: Options,
    pub(crate) model: Model,
    name: String,
}

impl Node {
    pub(crate) fn new(seed: u64) -> Node {
        Node::with(seed, options())
    }

    pub(crate) fn with(seed: u64, options: Options) -> Node {
        let machine = Machine::new(seed);
        let engine = Engine::open(machine.env(), Path::new("/data"), options.clone()).expect("a new store");
        let (engine, name) = (Some(engine), format!("http://node-{seed}"));
        Node { machine, engine, options, model: Model::new(), name }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open")
    }

    /// Its power is cut, if that has not happened, and it is started again.
    pub(crate) fn crash(&mut self, policy: PowerCut) {
        self.machine.disk.clear_faults();
        if self.machine.disk.is_powered() {
            self.machine.disk.power_cut(policy);
        }
        self.start_again();
    }

    fn start_again(&mut self) {
        self.engine = None;
        if !self.machine.disk.is_powered() {
            self.machine.disk.power_on();
        }
        let engine = Engine::open(self.machine.env(), Path::new("/data"), self.options.clone());
        self.engine = Some(engine.expect("what a power cut leaves"));
    }

    /// Puts other files in the place of all that it has, and starts it with them.
    pub(crate) fn replace(&mut self, files: &[(PathBuf, std::io::Result<Vec<u8>>)]) {
        self.engine = None;
        for path in self.machine.disk.paths() {
            self.machine.env().disk.remove(&path).expect("it is there");
        }
        for (path, bytes) in files {
            self.machine.disk.plant(path, bytes.as_ref().expect("a file"));
        }
        self.start_again();
    }

    /// Writes a value, and does some of what waits, on a disk that may fail.
    pub(crate) fn try_write(
        &self,
        key: &[u8],
        stamp: Stamp,
        value: &[u8],
    ) -> Result<(), ladoga_storage::Error> {
        let mut batch = WriteBatch::new();
        if value.len() as u64 >= ladoga_storage::BLOB_BYTES_MIN {
            let mut writer = self.engine().create_blob()?;
            writer.write(value)?;
            batch.put_blob(key, stamp, writer.finish()?);
        } else {
            batch.put(key, stamp, value);
        }
        self.engine().write_group(&[batch])?;
        // What fails here fails the next write.
        _ = self.engine().step();
        Ok(())
    }

    /// Writes a cell, which may be older than what is there.
    pub(crate) fn write(&mut self, key: &[u8], stamp: Stamp, value: Option<&[u8]>) {
        let mut batch = WriteBatch::new();
        match value {
            None => batch.delete(key, stamp),
            Some(value) if value.len() as u64 >= ladoga_storage::BLOB_BYTES_MIN => {
                let mut writer = self.engine().create_blob().expect("room");
                writer.write(value).expect("room");
                batch.put_blob(key, stamp, writer.finish().expect("room"));
            }
            Some(value) => batch.put(key, stamp, value),
        }
        self.engine().write_group(&[batch]).expect("a store that is well");
        note(&mut self.model, key, stamp, value);
    }

    pub(crate) fn put(&mut self, number: u64, timestamp: u64, value: &[u8]) {
        let stamp = Stamp::new(Version { timestamp, node: 0 });
        self.write(format!("key{number:03}").as_bytes(), stamp, Some(value));
    }

    /// Names the large value of a key again.
    pub(crate) fn restamp(&mut self, number: u64, timestamp: u64) {
        let (key, stamp) = (format!("key{number:03}"), Stamp::new(Version { timestamp, node: 0 }));
        let Some(Value::Large(blob)) = self.engine().get(key.as_bytes()).expect("a sound disk") else {
            panic!("{key} has a large value");
        };
        let mut batch = WriteBatch::new();
        batch.put_blob(key.as_bytes(), stamp, blob.to_name_again());
        self.engine().write_group(&[batch]).expect("a store that is well");
    }

    pub(crate) fn work(&self) {
        for _ in 0..50 {
            if !self.engine().step().expect("a store that is well") {
                return;
            }
        }
    }

    /// A checkpoint, as a node of its own would list it.
    pub(crate) fn checkpoint(&self) -> (Listing, FromDisk) {
        let (listing, source, _) = self.checkpoint_within_log();
        (listing, source)
    }

    /// The same, and where it ends in the log.
    pub(crate) fn checkpoint_within_log(&self) -> (Listing, FromDisk, u64) {
        let (env, slot) = (self.machine.env(), PathBuf::from("/data/checkpoints/0"));
        empty_slot(&*env.disk, &slot).expect("an empty slot");
        let copied = self.engine().checkpoint_within_log(&slot).expect("a checkpoint");
        let listing = Listing::of(&*env.disk, &slot, 7, copied.tables).expect("a listing");
        // As it comes over the network.
        let listing = Listing::decode(&listing.encode()).expect("the same listing");
        (listing, FromDisk { disk: env.disk, slot, bytes: 0 }, copied.end_sequence)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

pub(crate) fn note(model: &mut Model, key: &[u8], stamp: Stamp, value: Option<&[u8]>) {
    let known = model.get(key).map(|(stamp, _)| stamp.version);
    if known.is_none_or(|known| known < stamp.version) {
        model.insert(key.to_vec(), (stamp, value.map(<[u8]>::to_vec)));
    }
}

/// Reads a checkpoint where it is.
pub(crate) struct FromDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) slot: PathBuf,
    pub(crate) bytes: u64,
}

impl Source for FromDisk {
    fn read(&mut self, file: StoreFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let failed = |error: std::io::Error| Error::Source(error.to_string());
        let open = self.disk.open(&self.slot.join(file.path()), OpenMode::Read).map_err(failed)?;
        // Pieces of other lengths than were asked for, too.
        let left = open.len().map_err(failed)? - offset;
        let mut bytes = vec![0; left.min(bytes_max as u64).min(50_000) as usize];
        open.read_exact_at(&mut bytes, offset).map_err(failed)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }
}

/// Takes a backup of these nodes into the repository on a machine.
pub(crate) fn take(
    env: &Env,
    checkpoints: &mut [(String, Listing, &mut dyn Source)],
) -> Result<(Backup, Taken), Error> {
    let (repository, writing): (Repository, Writing) = Repository::create(&env.disk, Path::new(REPOSITORY))?;
    let id = repository.new_id(env)?;
    let (mut nodes, mut taken) = (Vec::<NodeBackup>::new(), Taken::default());
    let is_cluster = checkpoints.len() > 1;
    for (name, listing, source) in &mut *checkpoints {
        let mut last = Progress::default();
        let (node, cost) = repository.take(&writing, (name, 5), listing, *source, &mut |at| last = at)?;
        assert_eq!(last.done_bytes, last.total_bytes, "all that was missing was fetched");
        nodes.push(node);
        taken = taken.and(cost);
    }
    let cluster = if is_cluster { nodes.iter().map(|node| node.url.clone()).collect() } else { Vec::new() };
    let (ack, missing) = (nodes.len() as u32 / 2 + 1, Vec::new());
    let backup = Backup { id, begun_ms: 1, ended_ms: 2, cluster, ack, missing, nodes };
    repository.publish(&writing, &backup)?;
    Ok((backup, taken))
}

/// Takes a backup of one node.
pub(crate) fn take_one(env: &Env, node: &Node) -> Result<(Backup, Taken), Error> {
    let (listing, mut source) = node.checkpoint();
    take(env, &mut [(node.name().to_owned(), listing, &mut source)])
}

/// What is in a data directory.
pub(crate) fn found(env: &Env, dir: &Path) -> Result<Model, ladoga_storage::Error> {
    let engine = Engine::open(env.clone(), dir, options())?;
    let (mut range, mut model) = (engine.snapshot().range(b"", None), Model::new());
    while let Some((key, cell)) = range.next_cell()? {
        let value = cell.value.as_ref().map(read_value).transpose()?;
        model.insert(key.to_vec(), (cell.stamp, value.map(|bytes| bytes.to_vec())));
    }
    drop(range);
    engine.close()?;
    Ok(model)
}

pub(crate) fn repository(env: &Env) -> Repository {
    Repository::open(&env.disk, Path::new(REPOSITORY)).expect("a repository")
}

/// Everything in the repository is as it was written.
#[track_caller]
pub(crate) fn expect_sound(env: &Env, context: &str) {
    let verified =
        ladoga_backup::verify(&repository(env), &mut |_| {}).expect("a repository that can be read");
    assert!(verified.problems.is_empty(), "{context}: {:?}", verified.problems);
}
