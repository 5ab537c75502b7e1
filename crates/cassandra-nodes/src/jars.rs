use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The version of Cassandra. The cache has one directory for each.
const VERSION: &str = "5.0.5";

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ladoga</groupId>
  <artifactId>cassandra</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>VERSION</version>
    </dependency>
  </dependencies>
</project>
"#;

/// Cassandra, and a Java that it runs on.
#[derive(Debug, Clone)]
pub struct Installed {
    pub(crate) java: PathBuf,
    pub(crate) jars: PathBuf,
    cache: PathBuf,
}

impl Installed {
    /// Finds Java and fetches Cassandra by Maven, unless that was done before. The error is a person's: what is missing.
    pub fn find(cache: &Path) -> Result<Installed, String> {
        let java = find_java()
            .ok_or("there is no Java 17, which Cassandra 5.0 runs on (openjdk-17-jre-headless)")?;
        if !works(Command::new("setpriv").arg("--version")) {
            return Err("there is no setpriv, which ends Cassandra with its test (util-linux)".to_owned());
        }
        remove_abandoned(cache);
        let jars = cache.join(format!("lib-{VERSION}"));
        if !jars.is_dir() {
            fetch(cache, &jars)?;
        }
        Ok(Installed { java, jars, cache: cache.to_path_buf() })
    }

    /// A place for data of nodes, which is not there yet.
    pub(crate) fn new_directory(&self) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.cache.join(format!("nodes-{}-{count}", std::process::id()))
    }
}

/// Removes the data of nodes whose process did not come to do so.
fn remove_abandoned(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = name.strip_prefix("nodes-").and_then(|rest| rest.split('-').next());
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The command of the path if that is of this version, or else one of those that systems keep beside it.
fn find_java() -> Option<PathBuf> {
    let beside = fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin/java"));
    std::iter::once(PathBuf::from("java")).chain(beside).find(|java| is_java_17(java))
}

fn is_java_17(java: &Path) -> bool {
    // It prints its version as if that were an error.
    let printed = Command::new(java).arg("-version").stdin(Stdio::null()).output();
    printed.is_ok_and(|Output { stderr, .. }| String::from_utf8_lossy(&stderr).contains("version \"17."))
}

fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Fetches into a directory of its own first: others may do the same, and one of them wins.
fn fetch(cache: &Path, jars: &Path) -> Result<(), String> {
    if !works(Command::new("mvn").arg("--version")) {
        return Err("there is no Maven, which fetches Cassandra (maven)".to_owned());
    }
    let part = cache.join(format!("part-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{} cannot be written: {error}", part.display());
    fs::create_dir_all(&part).map_err(failed)?;
    fs::write(part.join("pom.xml"), POM.replace("VERSION", VERSION)).map_err(failed)?;
    let fetched = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"])
        .current_dir(&part)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    let result = if fetched.status.success() {
        let renamed = fs::rename(part.join("lib"), jars);
        if jars.is_dir() { Ok(()) } else { renamed.map_err(failed) }
    } else {
        let printed = String::from_utf8_lossy(&fetched.stdout).into_owned();
        let first =
            printed.lines().find(|line| line.contains("ERROR")).unwrap_or("it says nothing").to_owned();
        Err(format!("Maven cannot fetch Cassandra {VERSION}: {first}"))
    };
    // What is left is of no use, and costs nothing but room.
    let _ = fs::remove_dir_all(&part);
    result
}
