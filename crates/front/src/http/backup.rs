//! `/v0/backup`: what its query asks for, and what a checkpoint looks like.

use std::borrow::Cow;

use ladoga_model::Quote;
use ladoga_runtime::Operation;
use ladoga_service::{BackupStep, Begun, LogKept, LogSegment};
use serde_json::json;

use super::query::{QueryError, parameters};

/// Why a request does not say what it wants of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BackupError {
    /// It says nothing.
    #[error(
        "id and file are missing, expected the id of a checkpoint with a file that its listing has, or file=log/NAME of the log"
    )]
    Nothing,
    /// It does not say which checkpoint.
    #[error("id is {found}, expected the id of a checkpoint: 16 hexadecimal digits, as POST answered them")]
    Id {
        /// What it is.
        found: Quote,
    },
    /// It does not say which file.
    #[error("file is {found}, expected listing, or a name that the listing has, such as tables/000012.sst")]
    File {
        /// What it is.
        found: Quote,
    },
    /// A number is none.
    #[error("{name} is {found}, expected a whole number")]
    Number {
        /// Which one.
        name: &'static str,
        /// What it is.
        found: Quote,
    },
    /// The query is malformed.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// The most bytes that one answer has of a file.
pub(crate) const BACKUP_PIECE_BYTES_MAX: u64 = 256 << 10;
/// No name of a file is longer.
const FILE_BYTES_MAX: usize = 64;

/// What a request to `/v0/backup` asks for.
pub(crate) fn backup_step(operation: Operation, query: &[u8]) -> Result<BackupStep, BackupError> {
    if operation == Operation::Backup {
        let [after] = parameters(query, ["log_after"])?;
        let after = number("log_after", after)?;
        return Ok(after.map_or(BackupStep::Begin, |after| BackupStep::Log { after }));
    }
    let [id, file, offset, bytes] = parameters(query, ["id", "file", "offset", "bytes"])?;
    // Without a checkpoint, it is a file of the log.
    let is_log = operation == Operation::BackupFile && id.is_none();
    if let Some(file) = file.as_ref().filter(|_| is_log) {
        let (file, offset, bytes_max) = piece(file, offset, bytes)?;
        return Ok(BackupStep::ReadLog { file, offset, bytes_max });
    }
    if operation == Operation::BackupFile && id.is_none() {
        return Err(BackupError::Nothing);
    }
    let id = checkpoint_id(&id.unwrap_or_default())?;
    if operation == Operation::BackupEnd {
        return Ok(BackupStep::End { id });
    }
    let (file, offset, bytes_max) = piece(&file.unwrap_or_default(), offset, bytes)?;
    Ok(BackupStep::Read { id, file, offset, bytes_max })
}

/// Which file, from where on, and how many bytes at most.
fn piece(
    file: &[u8],
    offset: Option<Cow<'_, [u8]>>,
    bytes: Option<Cow<'_, [u8]>>,
) -> Result<(Box<str>, u64, u64), BackupError> {
    let name = str::from_utf8(file).ok().filter(|name| (1..=FILE_BYTES_MAX).contains(&name.len()));
    let name = name.ok_or_else(|| BackupError::File { found: Quote::of(file) })?;
    let offset = number("offset", offset)?.unwrap_or(0);
    let bytes_max = number("bytes", bytes)?.unwrap_or(u64::MAX).min(BACKUP_PIECE_BYTES_MAX);
    Ok((name.into(), offset, bytes_max))
}

fn checkpoint_id(text: &[u8]) -> Result<u64, BackupError> {
    let is_id = text.len() == 16 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let digits = str::from_utf8(text).ok().filter(|_| is_id);
    let id = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    id.ok_or_else(|| BackupError::Id { found: Quote::of(text) })
}

fn number(name: &'static str, text: Option<Cow<'_, [u8]>>) -> Result<Option<u64>, BackupError> {
    let Some(text) = text else { return Ok(None) };
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(&text).ok().filter(|_| is_number);
    let number = digits.and_then(|digits| digits.parse().ok());
    number.map(Some).ok_or_else(|| BackupError::Number { name, found: Quote::of(&text) })
}

/// A checkpoint as JSON. Timestamps are text: they do not fit into the numbers of some readers.
pub(crate) fn begun_json(begun: &Begun) -> String {
    let cluster = begun.cut.as_ref().map(|cut| {
        json!({
            "nodes": cut.nodes,
            "own": cut.own,
            "complete": cut.is_whole,
            "synced_before": cut.synced_before.to_string(),
            "dropped_before": cut.dropped_before.to_string(),
            "incarnation": cut.incarnation.to_string(),
        })
    });
    let json = json!({
        "id": format!("{:016x}", begun.id),
        "listing_bytes": begun.listing_bytes,
        "taken_ms": begun.taken_ms,
        "cluster": cluster,
        "log": begun.log.map(|(store, sequence)| {
            json!({ "store": format!("{store:032x}"), "sequence": sequence.to_string() })
        }),
    });
    format!("{json}\n")
}

/// What is kept of a log as JSON.
pub(crate) fn log_json(log: &LogKept) -> String {
    let segment = |segment: &LogSegment| {
        json!({
            "number": segment.number,
            "first_sequence": segment.first_sequence.to_string(),
            "end_sequence": segment.end_sequence.to_string(),
        })
    };
    let cluster = log.member.as_ref().map(|member| {
        json!({
            "nodes": member.nodes,
            "own": member.own,
            "complete": member.is_whole,
            "incarnation": member.incarnation.to_string(),
        })
    });
    let json = json!({
        "cluster": cluster,
        "store": format!("{:032x}", log.store),
        "reaches_ms": log.reaches_ms,
        "end_sequence": log.end_sequence.to_string(),
        "segments": log.segments.iter().map(segment).collect::<Vec<_>>(),
    });
    format!("{json}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(operation: Operation, query: &str) -> Result<BackupStep, String> {
        backup_step(operation, query.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_read_says_of_which_checkpoint_which_file_and_where() {
        let id = "id=00000000000000ff";
        let read = |query: &str| step(Operation::BackupFile, &format!("{id}{query}"));
        let expected = |offset, bytes_max| {
            Ok(BackupStep::Read { id: 255, file: "tables/000012.sst".into(), offset, bytes_max })
        };
        assert_eq!(read("&file=tables/000012.sst"), expected(0, BACKUP_PIECE_BYTES_MAX));
        assert_eq!(read("&file=tables%2F000012.sst&offset=7&bytes=9"), expected(7, 9));
        assert_eq!(read("&file=tables/000012.sst&bytes=99999999999"), expected(0, BACKUP_PIECE_BYTES_MAX));
        for wrong in
            ["", "&file=", "&file=%ff", "&file=a&offset=-1", "&file=a&bytes=", "&file=a&offset=1&offset=2"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&format!("&file={}", "x".repeat(FILE_BYTES_MAX + 1))).is_err());
        assert!(read("&file=a&offset=18446744073709551616").is_err());
        assert_eq!(step(Operation::BackupEnd, id), Ok(BackupStep::End { id: 255 }));
        for wrong in ["", "id=ff", "id=00000000000000FF", "id=+0000000000000ff", "id=0000000000000000f"] {
            assert!(step(Operation::BackupEnd, wrong).is_err(), "{wrong}");
        }
        assert_eq!(step(Operation::Backup, "anything=%20"), Ok(BackupStep::Begin));
        assert_eq!(step(Operation::Backup, "log_after=7"), Ok(BackupStep::Log { after: 7 }));
        for wrong in ["log_after=", "log_after=-1", "log_after=1&log_after=1"] {
            assert!(step(Operation::Backup, wrong).is_err(), "{wrong}");
        }
        let file = "log/000012.wal".into();
        let expected = Ok(BackupStep::ReadLog { file, offset: 7, bytes_max: 9 });
        assert_eq!(step(Operation::BackupFile, "file=log/000012.wal&offset=7&bytes=9"), expected);
        assert!(matches!(read("&file=log/000012.wal"), Ok(BackupStep::Read { .. })));
        assert!(step(Operation::BackupEnd, "file=log/000012.wal").is_err());
        let nothing = step(Operation::BackupFile, "").expect_err("nothing is asked for");
        assert!(nothing.starts_with("id and file are missing"), "{nothing}");
    }
}
