use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_backup::{
    Backup, Error, Listing, NodeBackup, Progress, Repository, Source, Taken, Writing, empty_slot,
};
use ladoga_env::sim::{self, SimDisk};
use ladoga_env::{Disk, Env, OpenMode};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Background, Durability, Engine, Options, StoreFile, WriteBatch, read_value};

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
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        let (env, disk, _) = sim::env(seed);
        Machine { env, disk }
    }

    /// What one process sees.
    pub(crate) fn env(&self) -> Env {
        Env { disk: Arc::new(self.disk.attached()), ..self.env.clone() }
    }
}

/// A node: a store, and what it is known to have.
pub(crate) struct Node {
    pub(crate) machine: Machine,
    engine: Engine,
    pub(crate) model: Model,
    name: String,
}

impl Node {
    pub(crate) fn new(seed: u64) -> Node {
        let machine = Machine::new(seed);
        let engine = Engine::open(machine.env(), Path::new("/data"), options()).expect("a new store");
        Node { machine, engine, model: Model::new(), name: format!("http://node-{seed}") }
    }

    /// Writes a cell, which may be older than what is there.
    pub(crate) fn write(&mut self, key: &[u8], stamp: Stamp, value: Option<&[u8]>) {
        let mut batch = WriteBatch::new();
        match value {
            None => batch.delete(key, stamp),
            Some(value) if value.len() as u64 >= ladoga_storage::BLOB_BYTES_MIN => {
                let mut writer = self.engine.create_blob().expect("room");
                writer.write(value).expect("room");
                batch.put_blob(key, stamp, writer.finish().expect("room"));
            }
            Some(value) => batch.put(key, stamp, value),
        }
        self.engine.write_group(&[batch]).expect("a store that is well");
        note(&mut self.model, key, stamp, value);
    }

    pub(crate) fn put(&mut self, number: u64, timestamp: u64, value: &[u8]) {
        let stamp = Stamp::new(Version { timestamp, node: 0 });
        self.write(format!("key{number:03}").as_bytes(), stamp, Some(value));
    }

    pub(crate) fn work(&self) {
        for _ in 0..50 {
            if !self.engine.step().expect("a store that is well") {
                return;
            }
        }
    }

    /// A checkpoint, as a node of its own would list it.
    pub(crate) fn checkpoint(&self) -> (Listing, FromDisk) {
        let (env, slot) = (self.machine.env(), PathBuf::from("/data/checkpoints/0"));
        empty_slot(&*env.disk, &slot).expect("an empty slot");
        let tables = self.engine.checkpoint(&slot).expect("a checkpoint");
        let listing = Listing::of(&*env.disk, &slot, 7, tables).expect("a listing");
        // As it comes over the network.
        let listing = Listing::decode(&listing.encode()).expect("the same listing");
        (listing, FromDisk { disk: env.disk, slot, bytes: 0 })
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
