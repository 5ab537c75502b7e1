use std::collections::BTreeMap;
use std::path::Path;

use ladoga_env::{Env, OpenMode};
use ladoga_model::{HybridClock, Stamp};
use ladoga_storage::{
    BLOB_PIECE_BYTES, Engine, FinishedBlob, LargeValue, LogCell, LogValue, SegmentReader, WriteBatch,
    begin_restore, end_restore,
};

use super::chain::{Chain, StoredLarge, StoredSegment, large_path, segment_path};
use super::large::ViewedLarge;
use super::span::{BackupLogs, Span};
use crate::error::Error;
use crate::merged::of_any_cluster;
use crate::moment::text_of_ms;
use crate::origin::Origins;
use crate::repository::{Backup, Repository};
use crate::restore::{Restored, SCRATCH, copy_files, is_full, lock_empty, open_scratch, write_merged};
use crate::slots::empty_slot;
use crate::{PIECE_BYTES_MAX, Progress};

/// How far versions may be ahead of the clock here without any that was set back: those of a node that was started again, and what clocks
/// differ by.
const AHEAD_MS_MAX: u64 = 60_000;

/// What was restored to a point in time.
#[derive(Debug)]
pub struct RestoredAt {
    /// From this backup, and the log behind it.
    pub backup: Backup,
    /// How much it was.
    pub restored: Restored,
    /// What is wrong with backups that are damaged, and might have been newer ones to begin with.
    pub passed_over: Vec<Error>,
    /// What was left out although it may have been acknowledged by then.
    pub left_out: Vec<AheadOfTime>,
}

/// Writes of a node that count as of a time that is still to come: its clock had been ahead and was set back. They were acknowledged
/// earlier than they say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AheadOfTime {
    /// Which node.
    pub url: String,
    /// What time the last of them count as of, in milliseconds since 1970, as far as that was read.
    pub until_ms: u64,
}

/// Makes `target` what a node on its own, or a cluster, had at a point in time: the newest backup that has nothing later, and all cells
/// of the log behind it up to then. With a backup given, that one. `target` opens as a store once this has returned, and not before.
/// Answers which backup it was, and which newer ones could not be read and so were passed over.
///
/// Of a cluster, the newest cell of each key counts, in whichever backup or log of a node it is, as in [`restore_cells`]. A node whose
/// log does not reach that time gives what it has, and counts as missing.
///
/// [`restore_cells`]: crate::restore_cells
pub fn restore_at(
    env: &Env,
    repository: &Repository,
    (at_ms, wanted): (u64, Option<&str>),
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoredAt, Error> {
    let disk = &*env.disk;
    let (backup, passed_over) = base(repository, at_ms, wanted)?;
    let logs = repository.logs_of(&backup)?;
    // The last timestamp of that millisecond.
    let last = HybridClock::at_wall_ms(at_ms + 1) - 1;
    let mut left_out =
        LeftOut { known_ms: env.clock.wall_ms().saturating_add(AHEAD_MS_MAX), nodes: Vec::new() };
    let segments = needed(&logs, last, &mut left_out);
    // Not before it is known that one gets there: a directory with nothing in it but a lock would open as an empty store.
    let _lock = lock_empty(disk, target)?;
    begin_restore(disk, target)?;
    let scratch = target.join(SCRATCH);
    empty_slot(disk, &scratch)?;
    let log_bytes = segments.iter().map(|(_, segment)| segment.bytes).fold(0, u64::saturating_add);
    let total_bytes = backup.bytes().saturating_add(log_bytes);
    let mut with_log = |at: Progress| progress(Progress { total_bytes, ..at });
    let (engine, mut restored) = match &backup.nodes[..] {
        [node] if backup.cluster.is_empty() => {
            let restored = copy_files(env, repository, node, &scratch, &mut with_log)?;
            (open_scratch(env, &scratch)?, restored)
        }
        _ => {
            let engine = open_scratch(env, &scratch)?;
            let written = write_merged(&engine, repository, &backup, &mut with_log)?;
            (engine, written)
        }
    };
    // What was written is another measure: files are compressed.
    let mut done_bytes = backup.bytes();
    let mut larges = Larges::of(segments.iter().map(|(_, segment)| *segment));
    for (chain, segment) in segments {
        let mut replay =
            Replay::new(repository, &engine, (segment, &mut larges), (last, backup.cluster.len()));
        replay.run(&mut |bytes| {
            restored.bytes += bytes;
            done_bytes += bytes;
            progress(Progress { done_bytes: done_bytes.min(total_bytes), total_bytes });
        })?;
        restored.count += replay.cells;
        left_out.note(chain, replay.newest_left_out);
        larges.end(segment);
    }
    engine.checkpoint(target)?;
    engine.close()?;
    empty_slot(disk, &scratch)?;
    end_restore(disk, target)?;
    Ok(RestoredAt { backup, restored, passed_over, left_out: left_out.nodes })
}

/// The segments that may have cells up to this timestamp which are not in the files of their nodes, each with the chain that it is of.
fn needed<'l>(
    logs: &'l BackupLogs<'_>,
    last: u64,
    left_out: &mut LeftOut,
) -> Vec<(&'l Chain, &'l StoredSegment)> {
    let mut segments = Vec::new();
    for (node, chain) in &logs.nodes {
        let Some(chain) = chain else { continue };
        let position = node.log.map_or(0, |position| position.sequence);
        for segment in chain.segments.iter().filter(|segment| segment.end_sequence > position) {
            if segment.oldest <= last {
                segments.push((chain, segment));
            } else {
                left_out.note(chain, segment.oldest);
            }
        }
    }
    segments
}

/// What is too late to be restored although it was acknowledged before now.
struct LeftOut {
    /// What is later than this is ahead of time.
    known_ms: u64,
    nodes: Vec<AheadOfTime>,
}

impl LeftOut {
    /// Notes a cell that is too late to be restored.
    fn note(&mut self, chain: &Chain, timestamp: u64) {
        let until_ms = HybridClock::wall_ms(timestamp);
        if until_ms <= self.known_ms {
            return;
        }
        match self.nodes.iter_mut().find(|ahead| ahead.url == chain.url) {
            Some(ahead) => ahead.until_ms = ahead.until_ms.max(until_ms),
            None => self.nodes.push(AheadOfTime { url: chain.url.clone(), until_ms }),
        }
    }
}

/// The newest backup from which one can get there, if no other node or cluster has one. Damaged ones are passed over: from an older one that has everything behind it up to
/// that time, one gets to the same.
fn base(repository: &Repository, at_ms: u64, wanted: Option<&str>) -> Result<(Backup, Vec<Error>), Error> {
    let (mut spans, mut missing) = (Vec::<Span>::new(), None);
    let (mut passed_over, mut base, mut origins) = (Vec::new(), None, Origins::default());
    let ids = wanted.map_or_else(|| repository.ids(), |id| Ok(vec![id.to_owned()]))?;
    for id in ids.into_iter().rev() {
        let found = repository.backup(&id).and_then(|backup| {
            // Older ones are looked at only for what another node or cluster has of that time.
            if origins.have(&backup) {
                return Ok((None, None, backup));
            }
            let logs = repository.logs_of(&backup)?;
            let span = logs.span();
            let is_short = span.is_none_or(|span| span.until_ms < at_ms);
            let missing = is_short.then(|| logs.missing_at(at_ms));
            Ok((span, missing, backup))
        });
        let (span, missing_here, backup) = match found {
            Err(error @ Error::Damaged { .. }) if wanted.is_none() => {
                if base.is_none() {
                    passed_over.push(error);
                }
                continue;
            }
            found => found?,
        };
        if span.is_some_and(|span| (span.from_ms..=span.until_ms).contains(&at_ms)) {
            origins.add(&backup);
            base.get_or_insert(backup);
        }
        // Of the newest one that could have led there.
        missing = missing.or(missing_here);
        spans.extend(span);
    }
    origins.expect_one(repository)?;
    if let Some(base) = base {
        return Ok((base, passed_over));
    }
    let mut missing = missing.unwrap_or_default();
    missing.extend(passed_over.iter().map(Error::to_string));
    Err(Error::OutOfReach { at: text_of_ms(at_ms), reachable: reachable(spans, &missing) })
}

/// Spans in words, with those together that overlap, and what is missing for more.
fn reachable(mut spans: Vec<Span>, missing: &[String]) -> String {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.from_ms <= last.until_ms => last.until_ms = last.until_ms.max(span.until_ms),
            _ => merged.push(span),
        }
    }
    let mut text = if merged.is_empty() {
        "no backup with log behind it is there (`ladoga serve --keep-log`)".to_owned()
    } else {
        let spans: Vec<String> = merged.iter().map(Span::to_string).collect();
        format!("expected a time {}", spans.join(", or "))
    };
    if !missing.is_empty() {
        text.push_str("; ");
        text.push_str(&missing.join("; "));
    }
    text
}

/// Large values that were copied, for as long as a segment is to come that names them: one whose time of expiry changes is named by each
/// segment that says so. Those that are done with are let go, so that the store can remove them.
struct Larges {
    /// How many segments that are not done name them.
    left: BTreeMap<StoredLarge, usize>,
    copied: BTreeMap<StoredLarge, FinishedBlob>,
}

impl Larges {
    fn of<'s>(segments: impl Iterator<Item = &'s StoredSegment>) -> Larges {
        let mut left = BTreeMap::new();
        for stored in segments.flat_map(|segment| &segment.larges) {
            *left.entry(*stored).or_default() += 1;
        }
        Larges { left, copied: BTreeMap::new() }
    }

    fn end(&mut self, segment: &StoredSegment) {
        for stored in &segment.larges {
            let Some(left) = self.left.get_mut(stored) else { continue };
            *left -= 1;
            if *left == 0 {
                self.left.remove(stored);
                self.copied.remove(stored);
            }
        }
    }
}

/// A segment on its way into a store.
struct Replay<'r> {
    repository: &'r Repository,
    engine: &'r Engine,
    segment: &'r StoredSegment,
    /// The last timestamp that counts.
    last: u64,
    /// How many nodes the cluster had; 0 of a node on its own.
    cluster: usize,
    batch: WriteBatch,
    /// Its large values, as it names them.
    named: BTreeMap<LargeValue, StoredLarge>,
    larges: &'r mut Larges,
    cells: u64,
    /// The last timestamp that did not count; 0 if all did.
    newest_left_out: u64,
    failed: Option<Error>,
}

impl<'r> Replay<'r> {
    fn new(
        repository: &'r Repository,
        engine: &'r Engine,
        (segment, larges): (&'r StoredSegment, &'r mut Larges),
        (last, cluster): (u64, usize),
    ) -> Replay<'r> {
        let named = segment.larges.iter().map(|stored| (stored.value, *stored)).collect();
        let (cells, newest_left_out, failed) = (0, 0, None);
        Replay {
            repository,
            engine,
            segment,
            last,
            cluster,
            batch: WriteBatch::new(),
            named,
            larges,
            cells,
            newest_left_out,
            failed,
        }
    }

    fn run(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let path = segment_path(self.repository, self.segment.hash);
        let open = self.repository.disk().open(&path, OpenMode::Read);
        let file = open.map_err(Error::io("open", &path))?;
        let sequences = (self.segment.first_sequence, self.segment.end_sequence);
        let mut reader = SegmentReader::new(&path, sequences);
        let mut offset = 0;
        while offset < self.segment.bytes {
            let mut piece = vec![0; (self.segment.bytes - offset).min(PIECE_BYTES_MAX as u64) as usize];
            file.read_exact_at(&mut piece, offset).map_err(Error::io("read", &path))?;
            offset += piece.len() as u64;
            let pushed = reader.push(&piece, &mut |cell| {
                if self.failed.is_none() {
                    self.failed = self.cell(cell).err();
                }
                Ok(())
            });
            if let Some(failed) = self.failed.take() {
                return Err(failed);
            }
            pushed?;
            progress(piece.len() as u64);
        }
        reader.finish()?;
        self.write()
    }

    fn cell(&mut self, cell: LogCell<'_>) -> Result<(), Error> {
        let LogCell { key, stamp, value } = cell;
        if stamp.version.timestamp > self.last {
            self.newest_left_out = self.newest_left_out.max(stamp.version.timestamp);
            return Ok(());
        }
        let stamp = if self.cluster == 0 { stamp } else { of_any_cluster(stamp, self.cluster) };
        match value {
            LogValue::Deleted => self.batch.delete(key, stamp),
            LogValue::Inline(value) => self.batch.put(key, stamp, value),
            // Each node of a cluster has it in its log: once is enough.
            LogValue::Large(_) if self.cluster > 0 && self.has(key, stamp)? => {}
            LogValue::Large(large) => {
                let blob = self.large(large)?;
                self.batch.put_blob(key, stamp, blob);
            }
        }
        self.cells += 1;
        if is_full(self.engine, &self.batch) { self.write() } else { Ok(()) }
    }

    fn has(&self, key: &[u8], stamp: Stamp) -> Result<bool, Error> {
        let found = self.engine.snapshot().get_cell(key)?;
        Ok(found.is_some_and(|cell| cell.stamp.version >= stamp.version))
    }

    fn write(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            self.engine.write_group(&[batch])?;
        }
        Ok(())
    }

    fn large(&mut self, value: LargeValue) -> Result<FinishedBlob, Error> {
        let stored = *self.named.get(&value).ok_or_else(|| Error::Damaged {
            path: segment_path(self.repository, self.segment.hash),
            what: format!("it names the large value {}, which its chain does not have", value.file),
        })?;
        if let Some(known) = self.larges.copied.get(&stored) {
            return Ok(known.clone());
        }
        let path = large_path(self.repository, stored.hash);
        let viewed = ViewedLarge::new(self.repository.disk(), value, path);
        let mut writer = self.engine.create_blob()?;
        let mut offset = 0;
        while offset < viewed.blob.len() {
            writer.write(&viewed.blob.read_piece(offset).map_err(|error| viewed.named(error))?)?;
            offset += BLOB_PIECE_BYTES as u64;
        }
        let finished = writer.finish()?;
        self.larges.copied.insert(stored, finished.clone());
        Ok(finished)
    }
}
