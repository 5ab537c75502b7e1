//! What a node keeps of its log, for backups that fetch it.

use bytes::Bytes;
use ladoga_service::{LogKept, LogSegment};
use ladoga_storage::{KeptSegment, LogFile};

use super::checkpoints::{Checkpoints, read_piece};
use super::write_error;
use crate::store::{Error, StoreError};

/// Segments that one answer names at most.
const LISTED_MAX: usize = 4096;

const NO_LOG: Error = Error::NoLog("this node keeps no log; start it with --keep-log, such as --keep-log 1d");
const NO_FILE: Error = Error::NoLog("there is no such file of the log, or none any more");

impl Checkpoints {
    /// What is kept. Everything is in it that was acknowledged before. Until when that is, says who gives versions.
    pub(super) fn log(&self, after: u64) -> Result<LogKept, Error> {
        let sealed = self.engine.seal_log().map_err(|error| write_error(&error))?;
        let end_sequence = sealed.ok_or(NO_LOG)?;
        let store = self.store().map_err(|error| {
            let reason = format!("the name of the store cannot be read: {error}");
            Error::from(StoreError::Failed { reason })
        })?;
        let segment = |kept: KeptSegment| LogSegment {
            number: kept.number,
            first_sequence: kept.first_sequence,
            end_sequence: kept.end_sequence,
        };
        let segments = self.engine.kept_log(after, LISTED_MAX).into_iter().map(segment).collect();
        Ok(LogKept { store, reaches_ms: 0, end_sequence, segments, member: None })
    }

    pub(super) fn read_log(&self, name: &str, offset: u64, bytes_max: u64) -> Result<Bytes, Error> {
        if !self.engine.keeps_log() {
            return Err(NO_LOG);
        }
        let path = LogFile::parse(name).and_then(|file| self.engine.kept_log_path(file)).ok_or(NO_FILE)?;
        // It may have been removed a moment ago, because it is old.
        read_piece(&*self.disk, &path, (offset, bytes_max), NO_FILE)
    }
}
