use std::fs;
use std::path::PathBuf;

use crate::support::{Directory, Ladoga, Launch, Node, wait_for};

struct File {
    directory: Directory,
}

impl File {
    fn new(text: &str) -> File {
        let file = File { directory: Directory::new() };
        fs::write(file.path(), text).expect("a file of settings");
        file
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("ladoga.toml")
    }

    fn text(&self) -> String {
        self.path().to_str().expect("a path of text").to_owned()
    }
}

/// The node's first line, which names the address, the directory, the durability and the memory.
fn start_line(node: &Node) -> String {
    let address = node.address().to_string();
    wait_for("a line that says where the node listens", || {
        let log = node.log();
        let (lines, _unfinished) = log.rsplit_once('\n')?;
        lines.lines().find(|line| line.contains(&address)).map(str::to_owned)
    })
}

#[test]
fn the_line_at_the_start_says_what_counts() {
    let node = Launch::new().flag("--fsync", "everysec").flag("--memory", "64MiB").start();
    let line = start_line(&node);
    for word in [node.data().to_str().expect("a path of text"), "everysec", "64MiB"] {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert_eq!(node.log().lines().count(), 1, "quiet by default:\n{}", node.log());
}

/// The machine may have swap, so it is no error.
#[test]
fn more_memory_than_there_is_is_told_and_taken() {
    let of_machine = fs::read_to_string("/proc/meminfo").expect("a machine that says how much memory it has");
    let of_machine = of_machine.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("its memory");
    let kilobytes: u64 = of_machine.trim().trim_end_matches(" kB").parse().expect("a number");
    let node = Launch::new().env("LADOGA_MEMORY", &format!("{}MiB", kilobytes >> 9)).start();
    let line = start_line(&node);
    assert!(line.contains("memory "), "{line}");
    let log = node.log();
    let warning = log.lines().next().expect("a line");
    for word in ["WARN", "LADOGA_MEMORY is ", "more than the "] {
        assert!(warning.contains(word), "{word:?} is not in {warning:?}");
    }
}

#[test]
fn a_variable_that_nothing_reads_is_told() {
    let node = Launch::new().env("LADOGA_MEMROY", "64MiB").env("LADOGA_URL", "http://127.0.0.1:1").start();
    start_line(&node);
    let log = node.log();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("WARN") && log.contains("LADOGA_MEMROY is unknown"), "{log}");
    assert!(log.contains("the closest known one is LADOGA_MEMORY"), "{log}");
    let checked =
        Ladoga::new(["serve", "--check-config"]).env("LADOGA_FSINC", "never").run().expect_success();
    assert!(checked.stderr.contains("LADOGA_FSYNC"), "{checked:?}");
}

#[test]
fn the_file_is_read() {
    let file = File::new("fsync = \"never\"\nmemory = \"48MiB\"\nthreads = 1\n");
    let node = Launch::new().flag("--config", &file.text()).start();
    let line = start_line(&node);
    assert!(line.contains("never") && line.contains("48MiB"), "{line}");
}

#[test]
fn the_file_may_be_named_in_the_environment() {
    let file = File::new("fsync = \"never\"\n");
    let node = Launch::new().env("LADOGA_CONFIG", &file.text()).start();
    assert!(start_line(&node).contains("never"), "{}", start_line(&node));
}

#[test]
fn the_environment_wins_over_the_file() {
    let file = File::new("fsync = \"never\"\nmemory = \"48MiB\"\n");
    let node = Launch::new().flag("--config", &file.text()).env("LADOGA_FSYNC", "everysec").start();
    let line = start_line(&node);
    assert!(line.contains("everysec") && !line.contains("never") && line.contains("48MiB"), "{line}");
}

#[test]
fn a_flag_wins_over_the_environment_and_the_file() {
    // The harness sets the address and the directory by flags; those of the file must not matter then.
    let file =
        File::new("listen = \"127.0.0.1:1\"\ndata = \"/nowhere\"\nfsync = \"never\"\nmemory = \"48MiB\"\n");
    let launch =
        Launch::new().flag("--config", &file.text()).flag("--fsync", "always").flag("--memory", "64MiB");
    let launch = launch.env("LADOGA_LISTEN", "127.0.0.1:2").env("LADOGA_DATA", "/nowhere/else");
    let node = launch.env("LADOGA_FSYNC", "everysec").env("LADOGA_MEMORY", "32MiB").start();
    let line = start_line(&node);
    assert!(line.contains("always") && line.contains("64MiB"), "{line}");
    assert!(!line.contains("nowhere") && !line.contains("everysec") && !line.contains("48MiB"), "{line}");
}

#[test]
fn the_environment_alone_is_enough() {
    let node = Launch::new().env("LADOGA_FSYNC", "never").env("LADOGA_THREADS", "1").start();
    assert!(start_line(&node).contains("never"), "{}", start_line(&node));
    let wrong = Ladoga::new(["serve", "--check-config"]).env("LADOGA_ENGINE", "tape").run();
    wrong.expect_failure(2, &["LADOGA_ENGINE is 'tape', expected"]);
}

#[test]
fn a_cluster_of_one_is_a_node() {
    let launch = Launch::new();
    let url = launch.url();
    let mut node = launch.flag("--cluster", &url).start();
    node.connect().put("key", b"value");
    node.stop();
    let launch = Launch::new();
    let url = launch.url();
    let node = launch.flag("--cluster", &url).flag("--advertise", &url).data(node.data()).start();
    assert_eq!(node.connect().request("GET", "/v0/entity?id=key&replicas=1/1", None).text(), "value");
}
