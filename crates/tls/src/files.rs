use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ladoga_env::real::read_regular_file;

use super::pem::FILE_BYTES_MAX;

/// Bits of a file's mode by which everybody on the machine may read it.
const EVERYBODY: u32 = 0o004;

/// Where the files are that a node is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsPaths {
    /// Its certificate, and those between it and an authority, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
    /// Who signs certificates of clients, which are then demanded.
    pub client_authority: Option<PathBuf>,
    /// Who signs certificates of nodes.
    pub peer_authority: Option<PathBuf>,
}

/// What was in them.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub(crate) paths: TlsPaths,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) client_authority: Option<Vec<u8>>,
    pub(crate) peer_authority: Option<Vec<u8>>,
}

impl TlsPaths {
    /// Reads them; the error names the file.
    pub fn read(&self) -> Result<TlsFiles, String> {
        let optional = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        Ok(TlsFiles {
            paths: self.clone(),
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_authority: optional(&self.client_authority)?,
            peer_authority: optional(&self.peer_authority)?,
        })
    }

    /// What an operator should know of the key, if everybody on the machine may read it.
    pub(crate) fn objection(&self) -> Option<String> {
        let mode = fs::metadata(&self.key).ok()?.permissions().mode();
        let path = self.key.display();
        (mode & EVERYBODY != 0).then(|| {
            format!("everybody on this machine can read the key {path}; expected `chmod o-r {path}` before it is used")
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_regular_file(path, FILE_BYTES_MAX)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}
