use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, Lock, OpenMode};
use ladoga_storage::{Error as StoreError, StoreFile};

/// The files of a checkpoint by the names that they have in a data directory, wherever they are. They can only be read.
pub(crate) struct View {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: BTreeMap<PathBuf, PathBuf>,
}

impl View {
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        place: usize,
        files: impl IntoIterator<Item = (StoreFile, PathBuf)>,
    ) -> Arc<View> {
        let dir = PathBuf::from(format!("/{place}"));
        let named = |(file, path): (StoreFile, PathBuf)| (dir.join(file.path()), path);
        let files = files.into_iter().map(named).collect();
        Arc::new(View { disk: Arc::clone(disk), dir, files })
    }

    /// Where its files seem to be. Views of different places have different ones.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn real(&self, path: &Path) -> io::Result<&Path> {
        self.files.get(path).map(PathBuf::as_path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// An error of the engine about the file that it is really about.
    pub(crate) fn named(&self, error: StoreError) -> StoreError {
        let real = |path: PathBuf| self.files.get(&path).cloned().unwrap_or(path);
        match error {
            StoreError::Corruption { path, offset, what, expected, found } => {
                StoreError::Corruption { path: real(path), offset, what, expected, found }
            }
            StoreError::Missing { path, although } => StoreError::Missing { path: real(path), although },
            StoreError::Io { operation, path, offset, kind, code } => {
                StoreError::Io { operation, path: real(path), offset, kind, code }
            }
            other => other,
        }
    }
}

impl View {
    /// An error of the engine about the file by the name that it has in a data directory.
    pub(crate) fn unviewed(&self, error: StoreError) -> StoreError {
        let inside = |path: PathBuf| path.strip_prefix(&self.dir).map(Path::to_path_buf).unwrap_or(path);
        match error {
            StoreError::Corruption { path, offset, what, expected, found } => {
                StoreError::Corruption { path: inside(path), offset, what, expected, found }
            }
            StoreError::Missing { path, although } => StoreError::Missing { path: inside(path), although },
            other => other,
        }
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for View {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        match mode {
            OpenMode::Read => self.disk.open(self.real(path)?, mode),
            OpenMode::ReadWrite | OpenMode::CreateNew => read_only(),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let inside = self.files.keys().filter(|path| path.parent() == Some(dir));
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(inside.filter_map(name).collect())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(0)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Lock>> {
        read_only()
    }
}
