//! The checkout: its root, and the files that belong to it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

/// A text file of the checkout.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    #[cfg(test)]
    pub(crate) fn fixture(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

impl Workspace {
    /// The workspace of this crate.
    pub(crate) fn here() -> Self {
        // Cargo sets the variable when it runs us; the compiled-in one serves a binary started by hand.
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir.ancestors().nth(2).map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Every package's manifest that exists: the workspace's, then those of the packages beside it.
    pub(crate) fn manifests(&self) -> Vec<&'static str> {
        ["Cargo.toml", "fuzz/Cargo.toml", "bench/Cargo.toml"]
            .into_iter()
            .filter(|path| self.has(path))
            .collect()
    }

    /// Every text file that is tracked, or could be added: what `.gitignore` names is left out.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>, String> {
        let mut files = Vec::new();
        for path in self.listed_paths()? {
            let Ok(bytes) = std::fs::read(self.root.join(&path)) else {
                continue; // Deleted in the working tree but still in the index, or a dangling link.
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path, text });
            }
        }
        Ok(files)
    }

    fn listed_paths(&self) -> Result<Vec<String>, String> {
        // In a container the checkout may belong to another user, which git refuses unless told otherwise.
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .map_err(|error| format!("cannot run git to list the files: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let listing =
            String::from_utf8(output.stdout).map_err(|error| format!("a path is not UTF-8: {error}"))?;
        let mut paths: Vec<String> =
            listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
        paths.sort_unstable();
        paths.dedup(); // A path with a merge conflict is listed once a side.
        Ok(paths)
    }
}
