use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::Directory;

/// A disk of a few megabytes, mounted only for processes that are run by [`SmallDisk::wrapper`].
///
/// It is in a mount namespace that a process holds open, which waits for the end of its input: so the disk goes away with the
/// test however that ends.
pub(crate) struct SmallDisk {
    holder: Child,
    enter: Vec<String>,
    mounted: Directory,
}

impl SmallDisk {
    /// Why there is none, if the system does not permit it.
    pub(crate) fn new(megabytes: u32) -> Result<SmallDisk, String> {
        let options = [&["--mount"][..], &["--user", "--map-root-user", "--mount"]];
        let mut reasons = Vec::new();
        for (unshare, nsenter) in
            options.into_iter().zip(["--mount", "--user --preserve-credentials --mount"])
        {
            match SmallDisk::hold(unshare, nsenter, megabytes) {
                Ok(disk) => return Ok(disk),
                Err(reason) => reasons.push(format!("unshare {}: {reason}", unshare.join(" "))),
            }
        }
        Err(reasons.join("; "))
    }

    fn hold(unshare: &[&str], nsenter: &str, megabytes: u32) -> Result<SmallDisk, String> {
        let mounted = Directory::new();
        let path = mounted.path().to_str().ok_or("the path is not text")?;
        let script = format!("mount -t tmpfs -o size={megabytes}m small \"$0\" && echo mounted && exec cat");
        let mut holder = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &script, path])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().expect("a pipe was asked for"));
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line != "mounted\n" {
            let output = holder.wait_with_output().map_err(|error| error.to_string())?;
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let enter = format!("nsenter --target {} {nsenter} --", holder.id());
        let enter = enter.split(' ').map(str::to_owned).collect();
        Ok(SmallDisk { holder, enter, mounted })
    }

    /// The command that runs a program with the disk mounted.
    pub(crate) fn wrapper(&self) -> &[String] {
        &self.enter
    }

    /// Its mount point, for programs inside.
    pub(crate) fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// The same directory, from outside.
    pub(crate) fn path_from_outside(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.path().strip_prefix("/").expect("an absolute path"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
