use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use ladoga_access::{FILE_BYTES_MAX, TokenFile};
use ladoga_env::real::read_regular_file;

/// Only who owns a new file may read which tokens there are.
const MODE: u32 = 0o600;
/// Who may read a file, and change it.
const PERMISSIONS: u32 = 0o777;

/// The file of tokens while it is being changed. The new one stands beside it, and takes its name once it is whole; as long as it is
/// there, nobody else changes the file.
pub(crate) struct TokenStore {
    path: PathBuf,
    new: PathBuf,
    file: fs::File,
    is_finished: bool,
    /// What the file has now.
    pub(crate) tokens: TokenFile,
}

/// Reads a file of tokens; the error names it.
pub(super) fn read_tokens(path: &Path) -> Result<Vec<u8>, String> {
    read_regular_file(path, FILE_BYTES_MAX)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The tokens in what was read from there.
pub(super) fn parse_tokens(path: &Path, content: &[u8]) -> Result<TokenFile, String> {
    TokenFile::parse(content).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where a file is, or would be. A link is left as it is: to rename over it would leave what it leads to with the old tokens.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new(""));
            Ok(directory.join(fs::read_link(path)?))
        }
        found => found,
    }
}

impl TokenStore {
    /// The tokens of a file.
    pub(crate) fn read(path: &Path) -> Result<TokenFile, String> {
        parse_tokens(path, &read_tokens(path)?)
    }

    /// Begins to change a file, or to make one.
    #[expect(clippy::disallowed_methods, reason = "as above")]
    pub(crate) fn begin(path: &Path) -> Result<TokenStore, String> {
        let path = &behind_links(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new);
        let file = created.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "{} exists: another `ladoga token` is changing the tokens, or was killed; remove the file if none is running",
                new.display()
            ),
            _ => format!("cannot write {}: {error}", new.display()),
        })?;
        // From here on, dropping it removes the new file.
        let mut store =
            TokenStore { path: path.to_owned(), new, file, is_finished: false, tokens: TokenFile::default() };
        match fs::metadata(path) {
            Ok(known) => {
                let content = read_tokens(path)?;
                // Whoever has made an empty one, with the owner that it is to have, has made no mistake.
                if !content.is_empty() {
                    store.tokens = parse_tokens(path, &content)?;
                }
                // A node that runs as another user has to be able to read it as before. Its group may do so only once it is the same.
                fchown(&store.file, Some(known.uid()), Some(known.gid()))
                    .map_err(|error| format!("cannot leave {} its owner: {error}", path.display()))?;
                store
                    .file
                    .set_permissions(fs::Permissions::from_mode(known.mode() & PERMISSIONS))
                    .map_err(|error| format!("cannot leave {} its mode: {error}", path.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        }
        Ok(store)
    }

    /// Replaces the file by what the tokens are now. Answers why that may not be on the disk, if so: it counts all the same.
    pub(crate) fn finish(self) -> Result<Option<String>, String> {
        self.finish_by(sync_directory_of)
    }

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn finish_by(mut self, sync: impl FnOnce(&Path) -> io::Result<()>) -> Result<Option<String>, String> {
        let text = self.tokens.text();
        let replaced = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.new, &self.path));
        replaced.map_err(|error| format!("cannot write {}: {error}", self.path.display()))?;
        self.is_finished = true;
        Ok(sync(&self.path).err().map(|error| {
            let path = self.path.display();
            format!("{path} is changed, but may not survive a power cut: cannot sync its directory: {error}")
        }))
    }
}

#[expect(clippy::disallowed_methods, reason = "as above")]
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl Drop for TokenStore {
    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn drop(&mut self) {
        // If it was completed, it has been renamed, and another one may be there by now.
        if !self.is_finished {
            let _ = fs::remove_file(&self.new);
        }
    }
}

#[cfg(test)]
mod tests {
    use ladoga_access::{Grant, Scope, Scopes, TokenEntry, TokenId, generate};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn directory(test: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("ladoga-tokens-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    /// A file that is about to have one token more.
    fn with_token(path: &Path) -> TokenStore {
        let mut store = TokenStore::begin(path).expect("no other one");
        let id = TokenId::parse(&format!("token{}", store.tokens.tokens.len())).expect("a name");
        let (_, hash) = generate(&id, [7; 32]);
        let grant = Grant::new(Scopes::of(&Scope::ALL), []);
        let (expires_at_ms, requests, bytes) = (None, None, None);
        store.tokens.tokens.push(TokenEntry { id, hash, grant, expires_at_ms, requests, bytes });
        store
    }

    /// It was replaced, and what it leads to kept the old tokens.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let dir = directory("linked");
        let (link, real) = (dir.join("link"), dir.join("there/tokens"));
        fs::create_dir_all(dir.join("there")).expect("a directory");
        std::os::unix::fs::symlink("there/tokens", &link).expect("a link");
        // It leads to nothing yet.
        for tokens in 1..=2 {
            assert_eq!(with_token(&link).finish(), Ok(None));
            assert!(link.is_symlink() && !real.is_symlink());
            assert_eq!(TokenStore::read(&real).expect("it is stored").tokens.len(), tokens);
        }
        fs::remove_dir_all(&dir).expect("a directory");
    }

    /// It got the mode of a new one: a node that reads it by its group kept the tokens before, and did not start any more.
    #[test]
    fn who_may_read_the_file_may_read_the_new_one() {
        let dir = directory("modes");
        let path = dir.join("tokens");
        let mode = || fs::metadata(&path).expect("a file").mode() & PERMISSIONS;
        assert_eq!(with_token(&path).finish(), Ok(None));
        assert_eq!(mode(), MODE);
        for given in [0o640, 0o400, 0o664] {
            fs::set_permissions(&path, fs::Permissions::from_mode(given)).expect("a mode");
            assert_eq!(with_token(&path).finish(), Ok(None));
            assert_eq!(mode(), given);
        }
        fs::remove_dir_all(&dir).expect("a directory");
    }

    /// It was said not to be written, although nodes took it; and a file that another one was about to write was removed.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "as above")]
    fn what_is_renamed_counts_also_if_it_cannot_be_synced() {
        let dir = directory("synced");
        let path = dir.join("tokens");
        let store = with_token(&path);
        let another = dir.join("tokens.new");
        let failing = |_: &Path| {
            fs::write(&another, b"of another one").expect("it has been renamed");
            Err(io::ErrorKind::Other.into())
        };
        let unsynced = store.finish_by(failing).expect("it is stored").expect("it may be lost");
        assert!(unsynced.contains("power cut") && unsynced.contains("tokens is changed"), "{unsynced}");
        assert!(another.exists());
        assert_eq!(TokenStore::read(&path).expect("it is stored").tokens.len(), 1);
        fs::remove_dir_all(&dir).expect("a directory");
    }
}
