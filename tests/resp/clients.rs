//! Client libraries of Redis, each as it comes: what they send by default, and their pipelines, transactions and scans. They come from
//! the registries of their languages, and are kept in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::RespNode;
use crate::support::skip;

/// A library, and a program that uses it.
struct Library {
    name: &'static str,
    /// What has to be on this machine.
    tools: &'static [&'static str],
    /// The program and what else is to be there before anything is installed.
    files: &'static [(&'static str, &'static str)],
    /// Installs the library into the directory in which it runs.
    install: &'static [&'static str],
    /// Runs the program, with a host and a port behind it.
    run: &'static [&'static str],
}

#[test]
fn redis_py() {
    run(&Library {
        name: "redis-py-8.1.0",
        tools: &["python3"],
        files: &[("client.py", include_str!("clients/client.py"))],
        install: &[
            "python3",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--target",
            ".",
            "redis==8.1.0",
        ],
        run: &["python3", "client.py"],
    });
}

#[test]
fn ioredis() {
    run(&Library {
        name: "ioredis-6.0.0",
        tools: &["node", "npm"],
        files: &[
            ("client.mjs", include_str!("clients/ioredis.mjs")),
            ("package.json", "{\"private\": true}"),
        ],
        install: &[
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "ioredis@6.0.0",
        ],
        run: &["node", "client.mjs"],
    });
}

#[test]
fn node_redis() {
    run(&Library {
        name: "node-redis-6.3.1",
        tools: &["node", "npm"],
        files: &[
            ("client.mjs", include_str!("clients/node_redis.mjs")),
            ("package.json", "{\"private\": true}"),
        ],
        install: &[
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "redis@6.3.1",
        ],
        run: &["node", "client.mjs"],
    });
}

#[test]
fn go_redis() {
    run(&Library {
        name: "go-redis-9.23.0",
        tools: &["go"],
        files: &[
            ("main.go", include_str!("clients/main.go")),
            ("go.mod", include_str!("clients/go.mod.txt")),
        ],
        install: &["sh", "-c", "go mod tidy && go build -o client ."],
        run: &["./client"],
    });
}

#[test]
fn jedis() {
    run(&Library {
        name: "jedis-8.0.2",
        tools: &["java", "mvn"],
        files: &[
            ("Client.java", include_str!("clients/Jedis.java")),
            ("pom.xml", include_str!("clients/jedis.xml")),
        ],
        install: &["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
        run: &["java", "-cp", "lib/*", "Client.java"],
    });
}

#[test]
fn lettuce() {
    run(&Library {
        name: "lettuce-7.7.0",
        tools: &["java", "mvn"],
        files: &[
            ("Client.java", include_str!("clients/Lettuce.java")),
            ("pom.xml", include_str!("clients/lettuce.xml")),
        ],
        install: &["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
        run: &["java", "-cp", "lib/*", "Client.java"],
    });
}

fn run(library: &Library) {
    if let Some(tool) = library.tools.iter().find(|tool| !is_there(tool)) {
        return skip(&format!("{}: {tool} is not installed", library.name));
    }
    let directory = match installed(library) {
        Ok(directory) => directory,
        Err(reason) => return skip(&format!("{} cannot be installed: {reason}", library.name)),
    };
    let node = RespNode::start();
    let output = command(library.run, &directory)
        .args(["127.0.0.1", &node.address().port().to_string()])
        .output()
        .expect("a program that was found");
    let [text, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && text.ends_with("ok\n"), "{}: {text}\n{errors}", library.name);
    // By the other door, what it wrote.
    assert_eq!(
        node.node.connect().get("by a client").text(),
        library.name.rsplit_once('-').expect("a version").0
    );
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

fn command(words: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory).env("GOFLAGS", "-mod=mod");
    command
}

/// Where the library is, installed now or by an earlier run.
fn installed(library: &Library) -> Result<PathBuf, String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redis-clients").join(library.name);
    let mark = directory.join("installed");
    let wanted: String = library
        .files
        .iter()
        .flat_map(|(name, text)| [*name, *text])
        .chain(library.install.iter().copied())
        .collect();
    if fs::read_to_string(&mark).is_ok_and(|known| known == wanted) {
        return Ok(directory);
    }
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&directory).map_err(failed)?;
    for (name, text) in library.files {
        fs::write(directory.join(name), text).map_err(failed)?;
    }
    let output = command(library.install, &directory).output().map_err(failed)?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        let first = told.lines().find(|line| line.to_lowercase().contains("err")).or(told.lines().next());
        return Err(first.unwrap_or("it does not say why").to_owned());
    }
    fs::write(&mark, wanted).map_err(failed)?;
    Ok(directory)
}
