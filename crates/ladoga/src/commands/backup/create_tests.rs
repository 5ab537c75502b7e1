use std::cell::RefCell;
use std::time::Duration;

use ladoga_env::sim;

use super::*;

/// What is fetched of three nodes if the files of each take so long.
fn fetched(files_take: Duration) -> Vec<String> {
    let (env, _, clock) = sim::env(1);
    let fetched = RefCell::new(Vec::new());
    let note = |what: &str, node: &str| fetched.borrow_mut().push(format!("{what} {node}"));
    let fetch_log = |node: &mut &str| {
        note("log", node);
        Ok(())
    };
    let fetch_files = |node: &mut &str| {
        note("files", node);
        clock.advance(files_take);
        Ok(())
    };
    fetch_in_turn(&*env.clock, &mut ["a", "b", "c"], fetch_log, fetch_files).expect("nothing fails");
    fetched.into_inner()
}

/// That of a node came after the files of all nodes before it, which may have taken longer than it is kept.
#[test]
fn the_log_of_each_node_comes_before_the_files_of_any() {
    let all_logs = ["log a", "log b", "log c"];
    assert_eq!(fetched(Duration::from_secs(1)), [&all_logs[..], &["files a", "files b", "files c"]].concat());
    let again = ["files a", "files b", "files c"].map(|files| [&all_logs[..], &[files]].concat());
    assert_eq!(fetched(Duration::from_mins(10)), again.concat());
}
