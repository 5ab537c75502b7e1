use std::path::Path;
use std::time::Duration;

use ladoga_backup::{
    Backup, Error, LogListing, LogPosition, LogSource, Member, PIECE_BYTES_MAX, Repository, Shipped, Writing,
};
use ladoga_env::{Env, OpenMode, Rng};
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::LogFile;

use crate::support::{Model, Node, REPOSITORY, note};
use crate::writer::{done, keeping};

/// Writes wait for so many nodes.
pub(crate) const ACK: usize = 2;

/// Nodes with the same keys: what each of them has and has dropped is decided as in a cluster, by hand and at random.
pub(crate) struct Group {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) history: Vec<(Vec<u8>, Stamp, Option<Vec<u8>>)>,
    last: u64,
}

pub(crate) struct Replica {
    pub(crate) node: Node,
    store: u128,
    pub(crate) incarnation: u64,
    pub(crate) is_whole: bool,
    /// It has everything older, and takes nothing older.
    synced_before: u64,
    /// It may have dropped deletions that are older.
    dropped_before: u64,
    /// Writes that have not reached it, by their place in the history.
    pending: Vec<usize>,
}

impl Group {
    pub(crate) fn new(seed: u64, count: u64) -> Group {
        let replica = |index| Replica {
            node: Node::with(seed * 10 + index, keeping()),
            store: u128::from(index) + 1,
            incarnation: 7 << 40,
            is_whole: true,
            synced_before: 0,
            dropped_before: 0,
            pending: Vec::new(),
        };
        Group { replicas: (0..count).map(replica).collect(), history: Vec::new(), last: 0 }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.replicas[0].node.machine.env().clock.wall_ms()
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        for replica in &self.replicas {
            replica.node.machine.clock.advance(Duration::from_millis(ms));
        }
    }

    /// A write that at least [`ACK`] of the nodes have when it is acknowledged.
    pub(crate) fn write(&mut self, rng: &dyn Rng, key: u64, value: Option<Vec<u8>>) {
        self.last = HybridClock::following(self.last, self.now_ms());
        let stamp = Stamp::new(Version { timestamp: self.last, node: 0 });
        self.history.push((format!("key{key:03}").into_bytes(), stamp, value));
        let (number, count) = (self.history.len() - 1, self.replicas.len());
        let without = (rng.below(2) == 0).then(|| rng.below(count as u64) as usize);
        for index in 0..count {
            if without == Some(index) {
                self.replicas[index].pending.push(number);
            } else {
                self.deliver(index, number);
            }
        }
    }

    fn deliver(&mut self, index: usize, number: usize) {
        let (key, stamp, value) = &self.history[number];
        let replica = &mut self.replicas[index];
        assert!(stamp.version.timestamp >= replica.synced_before, "it has that");
        replica.node.write(key, *stamp, value.as_deref());
    }

    /// Something that nodes do by themselves: a write arrives late, a node has heard of all that the others have, deletions go.
    pub(crate) fn act(&mut self, rng: &dyn Rng) {
        let index = rng.below(self.replicas.len() as u64) as usize;
        match rng.below(6) {
            0 | 1 => {
                let pending = self.replicas[index].pending.len() as u64;
                if pending > 0 {
                    let number = self.replicas[index].pending.swap_remove(rng.below(pending) as usize);
                    self.deliver(index, number);
                }
            }
            2 => self.sync(index),
            3 => self.drop_deletions(index),
            _ => self.replicas[index].node.work(),
        }
    }

    fn sync(&mut self, index: usize) {
        for number in std::mem::take(&mut self.replicas[index].pending) {
            self.deliver(index, number);
        }
        self.replicas[index].synced_before = self.last + 1;
    }

    fn drop_deletions(&mut self, index: usize) {
        let stable = self.replicas.iter().map(|replica| replica.synced_before).min().unwrap_or(0);
        let replica = &mut self.replicas[index];
        replica.dropped_before = replica.dropped_before.max(stable);
        replica.node.engine().drop_tombstones_before(replica.dropped_before);
        replica.node.work();
    }

    /// Some of everything.
    pub(crate) fn live(&mut self, rng: &dyn Rng, steps: u64) {
        for _ in 0..steps {
            let (key, kind) = (rng.below(20), rng.below(20));
            let value = vec![rng.next_u64() as u8; rng.below(400) as usize];
            match kind {
                0..6 => self.write(rng, key, None),
                6 => self.write(rng, key, Some(vec![value.len() as u8; 270_000])),
                7..13 => self.write(rng, key, Some(value)),
                _ => self.act(rng),
            }
            self.pass_ms(rng.below(3));
        }
    }

    pub(crate) fn model_at(&self, at_ms: u64) -> Model {
        let mut model = Model::new();
        for (key, stamp, value) in &self.history {
            if HybridClock::wall_ms(stamp.version.timestamp) <= at_ms {
                note(&mut model, key, *stamp, value.as_deref());
            }
        }
        // A deletion that all have heard of may be gone.
        model.retain(|_, (_, value)| value.is_some());
        model
    }

    /// A backup of these nodes, whose checkpoints are made at different moments, and the log behind it.
    pub(crate) fn back_up(&mut self, env: &Env, of: &[usize]) -> Result<String, Error> {
        loop {
            let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY))?;
            let (mut nodes, mut synced, mut dropped) = (Vec::new(), u64::MAX, 0);
            for &index in of {
                self.live(&*env.rng, 4);
                let replica = &self.replicas[index];
                synced = synced.min(replica.synced_before);
                let (listing, mut source, sequence) = replica.node.checkpoint_within_log();
                dropped = dropped.max(replica.dropped_before);
                let taken_ms = replica.node.machine.env().clock.wall_ms();
                let of = (replica.node.name(), taken_ms);
                let (node, _) = repository.take(&writing, of, &listing, &mut source, &mut |_| {})?;
                nodes.push((index, node, sequence));
            }
            if dropped > synced {
                // As the command does: some deletion may be on no node that had to have it.
                continue;
            }
            let id = repository.new_id(env)?;
            let shipped = self.ship_into(&repository, &writing, of)?;
            let with_log =
                |((_, mut node, sequence), shipped): ((_, ladoga_backup::NodeBackup, _), Shipped)| {
                    let chain = shipped.chain.expect("a chain");
                    assert!(chain.has_all_from(sequence));
                    node.log = Some(LogPosition { chain: chain.name, sequence });
                    node
                };
            let nodes: Vec<_> = nodes.into_iter().zip(shipped).map(with_log).collect();
            let names = self.replicas.iter().map(|replica| replica.node.name().to_owned());
            let cluster: Vec<String> = names.collect();
            let is_missing = |url: &&String| nodes.iter().all(|node| node.url != **url);
            let missing = |url: &String| ladoga_backup::Missing { url: url.clone(), why: "away".to_owned() };
            let missing = cluster.iter().filter(is_missing).map(missing).collect();
            let (begun_ms, ended_ms) = (1, self.now_ms());
            let backup =
                Backup { id: id.clone(), begun_ms, ended_ms, cluster, ack: ACK as u32, missing, nodes };
            repository.publish(&writing, &backup)?;
            return Ok(id);
        }
    }

    /// The logs of these nodes, up to the last millisecond that is over.
    pub(crate) fn ship(&mut self, env: &Env, of: &[usize]) -> Result<Vec<Shipped>, Error> {
        let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY))?;
        self.ship_into(&repository, &writing, of)
    }

    fn ship_into(
        &self,
        repository: &Repository,
        writing: &Writing,
        of: &[usize],
    ) -> Result<Vec<Shipped>, Error> {
        self.pass_ms(1);
        let reaches_ms = self.now_ms() - 1;
        let ship = |&index: &usize| {
            let replica = &self.replicas[index];
            // Each seals its log a little later.
            self.pass_ms(1);
            done(repository.ship(writing, (replica.node.name(), reaches_ms), &mut ReplicaLog(replica)))
        };
        of.iter().map(ship).collect()
    }
}

/// What a node of a group sends.
struct ReplicaLog<'r>(&'r Replica);

impl LogSource for ReplicaLog<'_> {
    fn list(&mut self, after: u64) -> Result<LogListing, Error> {
        let Replica { node, store, incarnation, is_whole, .. } = self.0;
        let reaches_ms = node.machine.env().clock.wall_ms() - 1;
        let end_sequence = node.engine().seal_log()?.expect("it keeps its log");
        let segments = node.engine().kept_log(after, 3);
        let member = Some(Member { incarnation: *incarnation, is_whole: *is_whole });
        Ok(LogListing { store: *store, reaches_ms, end_sequence, member, segments })
    }

    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        assert!(bytes_max <= PIECE_BYTES_MAX);
        let failed = |error: std::io::Error| Error::Source(error.to_string());
        let path = self.0.node.engine().kept_log_path(file).expect("it was listed");
        let open = self.0.node.machine.env().disk.open(&path, OpenMode::Read).map_err(failed)?;
        let left = open.len().map_err(failed)?.saturating_sub(offset);
        let mut bytes = vec![0; left.min(bytes_max as u64) as usize];
        open.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes)
    }
}
