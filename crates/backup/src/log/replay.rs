use std::collections::BTreeMap;
use std::path::Path;

use ladoga_env::{Env, OpenMode};
use ladoga_model::HybridClock;
use ladoga_storage::{
    BLOB_PIECE_BYTES, Durability, Engine, FinishedBlob, LargeValue, LogCell, LogValue, Options,
    SegmentReader, WriteBatch,
};

use super::chain::{StoredLarge, StoredSegment, large_path, segment_path};
use super::large::ViewedLarge;
use super::span::{Span, span_of};
use crate::error::Error;
use crate::moment::text_of_ms;
use crate::repository::{Backup, Repository};
use crate::restore::{GROUP_BYTES, MEMORY_BYTES, Restored, SCRATCH, copy_files, expect_empty};
use crate::slots::empty_slot;
use crate::{PIECE_BYTES_MAX, Progress};

/// Makes `target` what a node on its own had at a point in time: the newest backup that has nothing later, and all cells of its log
/// up to then. With a backup given, that one. `target` opens as a store once this has returned, and not before. Answers which
/// backup it was.
pub fn restore_at(
    env: &Env,
    repository: &Repository,
    (at_ms, wanted): (u64, Option<&str>),
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Backup, Restored), Error> {
    let disk = &*env.disk;
    expect_empty(disk, target)?;
    let backup = base(repository, at_ms, wanted)?;
    let found = repository.log_of(&backup)?;
    let (node, chain) = found
        .ok_or_else(|| Error::Unknown { id: backup.id.clone(), path: repository.dir().to_path_buf() })?;
    let position = node.log.map_or(0, |position| position.sequence);
    // The last timestamp of that millisecond.
    let last = HybridClock::at_wall_ms(at_ms + 1) - 1;
    let is_needed = |segment: &&StoredSegment| segment.end_sequence > position && segment.oldest <= last;
    let segments: Vec<&StoredSegment> = chain.segments.iter().filter(is_needed).collect();
    let scratch = target.join(SCRATCH);
    empty_slot(disk, &scratch)?;
    let log_bytes = segments.iter().map(|segment| segment.bytes).fold(0, u64::saturating_add);
    let total_bytes = node.bytes().saturating_add(log_bytes);
    let mut restored = copy_files(env, repository, node, &scratch, &mut |at: Progress| {
        progress(Progress { total_bytes, ..at });
    })?;
    let mut options = Options::new(MEMORY_BYTES, Durability::Never);
    // No deletion goes before all of the log is there.
    options.tombstone_age_ms_min = None;
    let engine = Engine::open(env.clone(), &scratch, options)?;
    for segment in segments {
        let mut replay = Replay::new(repository, &engine, segment, last);
        replay.run(&mut |bytes| {
            restored.bytes += bytes;
            progress(Progress { done_bytes: restored.bytes, total_bytes });
        })?;
        restored.count += replay.cells;
    }
    engine.checkpoint(target)?;
    engine.close()?;
    empty_slot(disk, &scratch)?;
    Ok((backup, restored))
}

/// The newest backup from which one can get there.
fn base(repository: &Repository, at_ms: u64, wanted: Option<&str>) -> Result<Backup, Error> {
    let (mut spans, mut is_of_cluster) = (Vec::<Span>::new(), false);
    let ids = wanted.map_or_else(|| repository.ids(), |id| Ok(vec![id.to_owned()]))?;
    for id in ids.into_iter().rev() {
        let backup = repository.backup(&id)?;
        is_of_cluster |= !backup.cluster.is_empty();
        let Some(span) = repository.log_of(&backup)?.and_then(|(node, chain)| span_of(node, &chain)) else {
            continue;
        };
        if (span.from_ms..=span.until_ms).contains(&at_ms) {
            return Ok(backup);
        }
        spans.push(span);
    }
    if spans.is_empty() && is_of_cluster {
        return Err(Error::NoPointInCluster);
    }
    Err(Error::OutOfReach { at: text_of_ms(at_ms), reachable: reachable(spans) })
}

/// Spans in words, with those together that overlap.
fn reachable(mut spans: Vec<Span>) -> String {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.from_ms <= last.until_ms => last.until_ms = last.until_ms.max(span.until_ms),
            _ => merged.push(span),
        }
    }
    if merged.is_empty() {
        return "no backup with log behind it is there (`ladoga serve --keep-log`)".to_owned();
    }
    let spans: Vec<String> = merged.iter().map(Span::to_string).collect();
    format!("expected a time {}", spans.join(", or "))
}

/// A segment on its way into a store.
struct Replay<'r> {
    repository: &'r Repository,
    engine: &'r Engine,
    segment: &'r StoredSegment,
    last: u64,
    batch: WriteBatch,
    larges: BTreeMap<LargeValue, FinishedBlob>,
    cells: u64,
    failed: Option<Error>,
}

impl<'r> Replay<'r> {
    fn new(
        repository: &'r Repository,
        engine: &'r Engine,
        segment: &'r StoredSegment,
        last: u64,
    ) -> Replay<'r> {
        let (batch, larges) = (WriteBatch::new(), BTreeMap::new());
        Replay { repository, engine, segment, last, batch, larges, cells: 0, failed: None }
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
            return Ok(());
        }
        match value {
            LogValue::Deleted => self.batch.delete(key, stamp),
            LogValue::Inline(value) => self.batch.put(key, stamp, value),
            LogValue::Large(large) => {
                let blob = self.large(large)?;
                self.batch.put_blob(key, stamp, blob);
            }
        }
        self.cells += 1;
        if self.batch.encoded_bytes() >= GROUP_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            self.engine.write_group(&[batch])?;
        }
        Ok(())
    }

    fn large(&mut self, value: LargeValue) -> Result<FinishedBlob, Error> {
        if let Some(known) = self.larges.get(&value) {
            return Ok(known.clone());
        }
        let stored = self.segment.larges.iter().find(|stored| stored.value == value);
        let hash = stored.map(|StoredLarge { hash, .. }| *hash).ok_or_else(|| Error::Damaged {
            path: segment_path(self.repository, self.segment.hash),
            what: format!("it names the large value {}, which its chain does not have", value.file),
        })?;
        let viewed = ViewedLarge::new(self.repository.disk(), value, large_path(self.repository, hash));
        let mut writer = self.engine.create_blob()?;
        let mut offset = 0;
        while offset < viewed.blob.len() {
            writer.write(&viewed.blob.read_piece(offset).map_err(|error| viewed.named(error))?)?;
            offset += BLOB_PIECE_BYTES as u64;
        }
        let finished = writer.finish()?;
        self.larges.insert(value, finished.clone());
        Ok(finished)
    }
}
