use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ladoga_env::Env;
use ladoga_env::sim::{self, SimDisk};
use ladoga_model::{Replicas, Stamp, Version};
use ladoga_node::peers::wire::{
    Answer, Base, Change, Changed, Forward, Forwarded, Had, Incarnation, Origin, Precondition, Request,
};
use ladoga_storage::{Background, Compression, Durability, Engine, Error, Options, WriteBatch};

/// Files as the engine writes them.
#[derive(Debug, Default)]
pub struct Seeds {
    /// Segments of the log.
    pub logs: Vec<Vec<u8>>,
    /// Manifests.
    pub manifests: Vec<Vec<u8>>,
    /// Tables, of each compression.
    pub tables: Vec<Vec<u8>>,
    /// The first blocks of those: as they stand in the file, without their checksums.
    pub blocks: Vec<Vec<u8>>,
}

fn answers(stamp: Stamp) -> [Answer; 7] {
    [
        Answer::Done,
        Answer::Superseded { newest: stamp.version, had: Had::Once },
        Answer::Fenced(stamp.version),
        Answer::Outbid(stamp.version),
        Answer::Forwarded(Box::new(Forwarded {
            is_shared: true,
            outcome: Some(Ok(Changed { stamp, sum: 7 })),
        })),
        Answer::Opened(3),
        Answer::Piece(Bytes::from_static(b"piece")),
    ]
}

/// What nodes say to each other.
pub fn peer_seeds() -> Vec<Vec<u8>> {
    let key = Bytes::from_static(b"key");
    let version = Version { timestamp: 1 << 40, node: 1 };
    let stamp = Stamp { copies: 2, ..Stamp::new(version) };
    let older = Version { timestamp: 1 << 39, node: 1 };
    let base = Base { had: None, newest: Some(older), met: vec![Incarnation::first(7)] };
    let requests = [
        Request::Read { key: key.clone(), digest: true, origin: Origin::Client },
        Request::Write {
            key: key.clone(),
            stamp,
            value: Some(Bytes::from_static(b"value")),
            origin: Origin::Client,
            is_again: true,
            durability: Some(Durability::Always),
        },
        Request::Write {
            key: key.clone(),
            stamp,
            value: None,
            origin: Origin::Repair,
            is_again: false,
            durability: None,
        },
        Request::OpenValue { key: key.clone(), version },
        Request::OpenCells { start: key.clone(), end: Bytes::new(), is_reverse: true, has_values: false },
        Request::Push { stream: 3, bytes: Bytes::from_static(b"piece") },
        Request::Finish {
            stream: 3,
            stamp,
            key: key.clone(),
            origin: Origin::Exchange,
            durability: Some(Durability::EverySecond),
        },
        Request::Prepare { key: key.clone(), ballot: version, durability: None },
        Request::Accept {
            key: key.clone(),
            stamp,
            base: base.clone(),
            value: Some(Bytes::from_static(b"value")),
            durability: Some(Durability::Always),
        },
        Request::AcceptUpload { stream: 3, stamp, base, key: key.clone(), durability: None },
        Request::Release { key: key.clone(), ballot: version },
        Request::KeepDeletions,
        Request::Forward(Box::new(Forward {
            key,
            replicas: Replicas { ack: 2, from: 3 },
            durability: None,
            left_ms: 5_000,
            expires_at_ms: 0,
            precondition: Precondition::IfMatch([version].into()),
            change: Change::Put(Bytes::from_static(b"value")),
        })),
    ];
    let frame = |put: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        put(&mut out);
        out.to_vec()
    };
    let requests = requests.iter().map(|request| frame(&|out| request.put(out, 7)));
    let answers = answers(stamp);
    let answers = answers.iter().map(|answer| frame(&|out| answer.put(out, 7)));
    let mut seeds: Vec<_> = requests.chain(answers).collect();
    // The same without what stands before a body, as the target has it.
    seeds.extend(seeds.clone().into_iter().map(|mut seed| seed.split_off(12)));
    seeds
}

/// Lets an engine write some files on a simulated disk; the same ones each time.
///
/// # Errors
/// Those of the engine, which has no reason for one.
pub fn seeds() -> Result<Seeds, Error> {
    let mut seeds = Seeds::default();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (env, disk, _) = sim::env(1);
        let env = Env { disk: Arc::new(disk.clone()), ..env };
        write_files(env, compression)?;
        seeds.take(&disk);
    }
    Ok(seeds)
}

fn write_files(env: Env, compression: Compression) -> Result<(), Error> {
    let options = Options {
        background: Background::Manual,
        compression: [compression; ladoga_storage::LEVELS],
        memtable_bytes: Some(16 << 10),
        table_bytes: Some(8 << 10),
        level_1_bytes: Some(16 << 10),
        ..Options::new(16 << 20, Durability::Always)
    };
    let engine = Engine::open(env, Path::new("/data"), options)?;
    for n in 0..300_u64 {
        let stamp = |expires_at_ms| Stamp {
            version: Version { timestamp: n + 1, node: 1 },
            expires_at_ms,
            copies: (n % 3) as u8,
        };
        let key = format!("key-{:03}", n * 7 % 90);
        let mut batch = WriteBatch::new();
        match n % 7 {
            2 => batch.delete(key.as_bytes(), stamp(0)),
            4 => {
                let mut blob = engine.create_blob()?;
                blob.write(&[n as u8; 500])?;
                batch.put_blob(key.as_bytes(), stamp(0), blob.finish()?);
            }
            5 => batch.put(key.as_bytes(), stamp(u64::MAX), b"until the end of days"),
            _ => batch.put(key.as_bytes(), stamp(0), format!("value {n} ").repeat(12).as_bytes()),
        }
        engine.write_group(&[batch])?;
        engine.step()?;
    }
    Ok(())
}

impl Seeds {
    fn take(&mut self, disk: &SimDisk) {
        for path in disk.paths() {
            let Ok(mut bytes) = disk.read_file(&path) else { continue };
            let name = path.to_string_lossy();
            // What is allocated and not written yet says nothing.
            bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
            if name.contains("/wal/") {
                self.logs.extend([without_headers(&bytes), bytes]);
            } else if name.contains("manifest") {
                self.manifests.extend([without_headers(&bytes), bytes]);
            } else if name.contains("/tables/") {
                self.blocks.extend(first_block(&bytes));
                self.tables.push(bytes);
            }
        }
    }
}

/// How long the header of a log is.
const LOG_HEADER_BYTES: usize = 48;

/// The frames of a log as the targets build logs from: a jump, what is durable, a length, so many bytes.
fn without_headers(log: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = log.get(LOG_HEADER_BYTES..).unwrap_or_default();
    while let Some(header) = rest.first_chunk::<28>() {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some(payload) = rest.get(28..28 + length) else { break };
        let kept = &payload[..length.min(255)];
        out.extend_from_slice(&[0, header[20], kept.len() as u8]);
        out.extend_from_slice(kept);
        rest = &rest[28 + length..];
    }
    out
}

/// A block ends with how it is packed, and whether there is padding, and how long it is unpacked: about 4 KiB here.
fn first_block(table: &[u8]) -> Option<Vec<u8>> {
    let is_end = |&end: &usize| {
        let Some(&[packed, length @ ..]) = table.get(end - 5..end).and_then(<[u8]>::first_chunk::<5>) else {
            return false;
        };
        packed & !0x80 <= 2 && (3500..6500).contains(&u32::from_le_bytes(length))
    };
    (5..table.len().min(6000)).find(is_end).map(|end| table[..end].to_vec())
}
