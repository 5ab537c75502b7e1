use std::cell::Cell;
use std::io;
use std::path::Path;

use ladoga_env::{Env, sim};
use ladoga_storage::{Durability, Options};

use super::{CHANGES_KEPT_MS, Embedded, OpenError};
use crate::store::Store;

fn open(env: &Env, prepare: impl FnOnce() -> io::Result<()>) -> Result<Embedded, OpenError> {
    let options = Options::new(64 << 20, Durability::Never);
    Embedded::open_to_follow(env.clone(), Path::new("/data"), options, CHANGES_KEPT_MS, prepare)
}

/// What a node on its own writes before it may drop deletions was written after that, or not at all if the node was killed before.
#[test]
fn what_has_to_be_prepared_is_so_behind_the_lock_of_the_directory_or_nothing_is_opened() {
    let (env, _disk, _clock) = sim::env(1);
    let is_called = Cell::new(false);
    let store = open(&env, || {
        is_called.set(true);
        let other = open(&env, || panic!("the directory is locked")).err().expect("a lock");
        assert!(other.to_string().contains("is locked"), "{other}");
        Ok(())
    });
    assert!(is_called.get());
    store.expect("a store").close().expect("a store that closes");
    let error = open(&env, || Err(io::Error::other("the state is damaged"))).err();
    assert_eq!(error.expect("it was not prepared").to_string(), "the state is damaged");
    open(&env, || Ok(())).expect("nobody has the directory").close().expect("a store that closes");
}
