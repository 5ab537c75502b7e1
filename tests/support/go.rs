use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program in Go from the module proxy, such as `example.org/cmd/tool` at `v1.2.3`; or why it cannot be had here. It is built once,
/// and kept in the target directory.
pub(crate) fn go_program(package: &str, version: &str) -> Result<PathBuf, String> {
    let (_, name) = package.rsplit_once('/').ok_or_else(|| format!("{package} is no package"))?;
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go").join(format!("{name}-{version}"));
    fs::create_dir_all(&kept).map_err(|error| error.to_string())?;
    let program = kept.join(name);
    // Tests run beside each other, and one of them builds.
    let lock = File::create(kept.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if !program.exists() {
        let built = Command::new("go")
            .args(["install", &format!("{package}@{version}")])
            .env("GOBIN", &kept)
            .output();
        let built = built.map_err(|error| format!("go cannot be started: {error}"))?;
        if !built.status.success() {
            return Err(format!("{package} cannot be built: {}", String::from_utf8_lossy(&built.stderr)));
        }
    }
    Ok(program)
}
