//! Files of text, read with a bound, and replaced as a whole.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use crate::stop::{OrFail, Outcome, failed};

/// Of results: many thousand runs.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// None if there is no such file. Bytes that are no text are replaced.
pub(crate) fn read(path: &Path) -> Outcome<Option<String>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).or_fail(cannot),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).or_fail(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return failed(format!(
            "{} has more than {} MiB: is it what it should be?",
            path.display(),
            FILE_BYTES_MAX >> 20
        ));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The old text or the new one is there, whenever this program is killed.
pub(crate) fn replace(path: &Path, text: &str) -> Outcome {
    // A pipe or a terminal has no old text.
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return fs::write(path, text).or_fail(|| format!("cannot write {}", path.display()));
    }
    let name = path.file_name().or_fail(|| format!("{} is no name of a file", path.display()))?;
    let mut new = name.to_os_string();
    new.push(".new");
    let new = path.with_file_name(new);
    let write = || {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.or_fail(|| format!("cannot write {}", path.display()))
}
