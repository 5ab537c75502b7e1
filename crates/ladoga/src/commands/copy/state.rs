#![expect(clippy::disallowed_methods, reason = "how far a command is, is no part of a store")]

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ladoga_env::Clock;
use ladoga_env::real::{RealClock, read_regular_file};
use serde_json::{Value, json};

use super::super::Failure;
use super::Sides;
use super::source::Span;
use super::stored::Stored;

/// A file of state is shorter.
const FILE_BYTES_MAX: usize = 64 << 10;
/// What the first member of a file has to be.
const FORMAT: u64 = 1;

/// How far a copy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CopyProgress {
    /// Everything up to this key is done.
    pub(super) after: Option<Vec<u8>>,
    /// What is stored up to there.
    pub(super) records: u64,
    pub(super) expired: u64,
    /// How many of these were stored by an earlier run.
    pub(super) before: u64,
    /// Whether that is all.
    pub(super) is_copied: bool,
}

impl CopyProgress {
    pub(super) fn advance(&mut self, stored: Stored, last_key: Vec<u8>) {
        self.records += stored.records;
        self.expired += stored.expired;
        self.after = Some(last_key);
    }
}

/// How far a copy is, in memory and, if that was asked for, in a file:
///
/// ```text
/// {"format":1,"from":URL,"to":URL,"prefix":BASE64|null,"after":BASE64|null,"records":N,"expired":N,"copied":BOOL}
/// ```
pub(super) struct StateFile {
    path: Option<PathBuf>,
    /// The members that say of which copy it is.
    name: Value,
    pub(super) progress: CopyProgress,
    saved: Option<CopyProgress>,
    saved_ms: u64,
    clock: RealClock,
}

impl StateFile {
    /// Reads a file, if it is there; it has to be of the same copy.
    pub(super) fn open(path: Option<&Path>, sides: &Sides, whole: &Span) -> Result<StateFile, Failure> {
        let prefix = whole.prefix.as_ref().map(|prefix| STANDARD.encode(prefix));
        let name = json!({"from": sides.from.to_string(), "to": sides.to.to_string(), "prefix": prefix});
        let mut file = StateFile {
            path: path.map(Path::to_path_buf),
            name,
            progress: CopyProgress::default(),
            saved: None,
            saved_ms: 0,
            clock: RealClock::new(),
        };
        let Some(path) = path else { return Ok(file) };
        let wrong = |expected: String| {
            Failure::Usage(format!("--resume is '{}', expected {expected}", path.display()))
        };
        let text = match read_regular_file(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Whether it can be written is found out before anything is copied.
                file.save()?;
                return Ok(file);
            }
            Err(error) => return Err(wrong(format!("a file that can be read: {error}"))),
        };
        file.progress = file.parse(&text).map_err(wrong)?;
        Ok(file)
    }

    /// Where it is kept, if it is.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn parse(&self, text: &[u8]) -> Result<CopyProgress, String> {
        let no_state = || "a file that `ladoga copy --resume` has written, or none yet".to_owned();
        let state: Value = serde_json::from_slice(text).map_err(|_| no_state())?;
        if state["format"].as_u64() != Some(FORMAT) {
            return Err(no_state());
        }
        for member in ["from", "to", "prefix"] {
            if state[member] != self.name[member] {
                let (found, own) = (&state[member], &self.name[member]);
                return Err(format!("the file of this copy: its {member} is {found}, not {own}"));
            }
        }
        let after = match &state["after"] {
            Value::Null => None,
            Value::String(text) => Some(STANDARD.decode(text).map_err(|_| no_state())?),
            _ => return Err(no_state()),
        };
        let records = state["records"].as_u64().ok_or_else(no_state)?;
        let expired = state["expired"].as_u64().ok_or_else(no_state)?;
        let is_copied = state["copied"].as_bool().ok_or_else(no_state)?;
        Ok(CopyProgress { after, records, expired, before: records, is_copied })
    }

    fn text(&self) -> String {
        let CopyProgress { after, records, expired, is_copied, .. } = &self.progress;
        let mut state = self.name.clone();
        state["format"] = FORMAT.into();
        state["after"] = after.as_ref().map_or(Value::Null, |key| STANDARD.encode(key).into());
        state["records"] = (*records).into();
        state["expired"] = (*expired).into();
        state["copied"] = (*is_copied).into();
        format!("{state}\n")
    }

    /// Writes it, unless it is written like that. A crash leaves this or what was there before.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.saved.as_ref() == Some(&self.progress) {
            return Ok(());
        }
        let cannot = |error| Failure::Failed(format!("cannot write --resume {}: {error}", path.display()));
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let written = fs::File::create(&part).and_then(|mut file| {
            file.write_all(self.text().as_bytes())?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&part, path)).map_err(cannot)?;
        self.saved = Some(self.progress.clone());
        self.saved_ms = self.clock.monotonic_ns() / 1_000_000;
        Ok(())
    }

    /// The same, unless that was a moment ago.
    pub(super) fn save_from_time_to_time(&mut self, every: Duration) -> Result<(), Failure> {
        let now_ms = self.clock.monotonic_ns() / 1_000_000;
        let is_due = u128::from(now_ms - self.saved_ms) >= every.as_millis();
        if is_due { self.save() } else { Ok(()) }
    }

    /// Removes it: the copy is over.
    pub(super) fn remove(&mut self) -> Result<(), Failure> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let cannot = |error| Failure::Failed(format!("cannot remove --resume {}: {error}", path.display()));
        fs::remove_file(&path).map_err(cannot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::patience::Patience;
    use super::*;
    use crate::client::Url;

    fn file(prefix: Option<&[u8]>, progress: CopyProgress) -> StateFile {
        let url = |text| Url::parse(text).expect("a URL");
        let sides = Sides {
            from: url("http://a:1"),
            to: url("http://b:2"),
            patience: Patience::of_flag(Duration::ZERO),
        };
        let span = Span { prefix: prefix.map(<[u8]>::to_vec), after: None };
        let file = StateFile::open(None, &sides, &span).expect("no file");
        StateFile { progress, ..file }
    }

    #[test]
    fn what_is_written_is_read() {
        for after in [None, Some(b"\xff\n\0key".to_vec())] {
            let progress = CopyProgress { after, records: 7, expired: 2, before: 0, is_copied: false };
            let file = file(Some(b"\x80"), progress.clone());
            let read = file.parse(file.text().as_bytes());
            assert_eq!(read, Ok(CopyProgress { before: 7, ..progress }));
        }
    }

    #[test]
    fn the_state_of_another_copy_is_refused() {
        let text = file(None, CopyProgress::default()).text();
        let other = file(Some(b"p"), CopyProgress::default());
        assert!(other.parse(text.as_bytes()).expect_err("another prefix").contains("its prefix is null"));
        let moved = text.replace("http://b:2", "http://b:3");
        let own = file(None, CopyProgress::default());
        assert!(own.parse(moved.as_bytes()).expect_err("another target").contains("its to is"));
        for wrong in ["", "nonsense", "{}", "[]", "{\"format\":2}", &text.replace("null}", "1}")] {
            let found = own.parse(wrong.as_bytes());
            assert!(found.is_err() || wrong == text, "{wrong}");
        }
    }
}
