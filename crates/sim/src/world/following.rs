//! A client that follows the changes of all keys, now at this node and then at another, with the token that it was given last. In the
//! end it was told what all nodes have, and over one connection the versions of a key never fall.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use ladoga_env::Rng;
use ladoga_model::{Stamp, Version};
use ladoga_service::{ChangeFormat, ChangePiece, ChangedTo, Error, Followed, KeySpan, KeyValue, Since};

use super::shared::Shared;
use super::{Event, World};

/// How long it stays with a node, as a rule, and now and then.
const STAYS_MS: u64 = 2_000;
const STAYS_LONG_MS: u64 = 30_000;
/// How long it waits for changes before it asks whether there is a new token.
const WAITS_MS: u64 = 300;
/// By when it is told of everything at the end.
pub(super) const LATE_MS: u64 = 3 * STAYS_LONG_MS;

type Told = BTreeMap<Vec<u8>, Version>;

/// What the client knows.
pub(super) struct Following {
    since: Since,
    told: Told,
    /// Counts its connections: only the last one counts.
    connection: u64,
    /// How many changes it was told.
    changes: u64,
    /// What it is to be told in the end.
    expected: Told,
}

impl Default for Following {
    fn default() -> Following {
        let (told, expected) = (Told::new(), Told::new());
        Following { since: Since::Beginning, told, connection: 0, changes: 0, expected }
    }
}

impl Following {
    /// How many changes it was told.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// How often it has connected.
    pub(super) const fn connection(&self) -> u64 {
        self.connection
    }
}

/// Keys and versions.
struct Versions;

impl ChangeFormat for Versions {
    fn change(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, _: ChangedTo<'_>) {
        out.put_u16(key.len() as u16);
        out.put_slice(key);
        out.put_u64(stamp.version.timestamp);
        out.put_u16(stamp.version.node);
    }
}

fn parse(bytes: Vec<u8>) -> Vec<(Vec<u8>, Version)> {
    let (mut rest, mut found) = (Bytes::from(bytes), Vec::new());
    while rest.has_remaining() {
        let length = usize::from(rest.get_u16());
        let key = rest.split_to(length).to_vec();
        found.push((key, Version { timestamp: rest.get_u64(), node: rest.get_u16() }));
    }
    found
}

impl World {
    /// It goes to another node.
    pub(super) fn follow(&mut self) {
        let stays_ms = if self.follower_rng.below(8) == 0 { STAYS_LONG_MS } else { STAYS_MS };
        self.plan(1 + self.follower_rng.below(stays_ms), Event::Follow);
        let node = self.follower_rng.below(self.machines.len() as u64) as usize;
        let connection = {
            let mut following = self.shared.following.borrow_mut();
            following.connection += 1;
            following.connection
        };
        let is_paused = self.machines[node].paused_until_us > self.now_us();
        let Some(process) = self.machines[node].process.as_ref().filter(|_| !is_paused) else { return };
        let (service, shared) = (Rc::clone(process.node.service()), Rc::clone(&self.shared));
        process.tasks.spawn_local(async move { converse(&*service, &shared, connection).await });
    }

    /// All nodes agree: it is to be told what they have.
    pub(super) fn expect_to_be_told(&self) {
        let all = self.machines.len();
        let Some(process) = &self.machines[0].process else { return };
        let clients = self.shared.clients.borrow();
        // What fewer nodes than all have, those alone tell.
        let keys = clients.keys.iter().filter(|plan| plan.copies() == all).map(|plan| &plan.key);
        let cells: BTreeMap<_, _> = process.store.inner.all_cells().into_iter().collect();
        let versions = keys.filter_map(|key| Some((key.clone(), cells.get(key)?.stamp.version)));
        self.shared.following.borrow_mut().expected = versions.collect();
    }

    /// What it was not told, or what is wrong with that.
    pub(super) fn untold(&self) -> Option<String> {
        let following = self.shared.following.borrow();
        if following.connection == 0 {
            return None;
        }
        let untold =
            following.expected.iter().find(|&(key, version)| following.told.get(key) < Some(version));
        untold.map(|(key, version)| {
            format!(
                "who follows was told {:?} of {}, expected {version:?}, after {} changes over {} connections",
                following.told.get(key),
                key.escape_ascii(),
                following.changes,
                following.connection
            )
        })
    }
}

async fn converse(service: &impl KeyValue, shared: &Shared, connection: u64) {
    let span = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
    let since = shared.following.borrow().since.clone();
    let mut follower = match service.follow(Followed { span, since }, Box::new(Versions)).await {
        Ok(follower) => follower,
        Err(error) => return refused(shared, connection, &error),
    };
    let mut now = Told::new();
    while let Ok((ChangePiece { bytes, token, is_all }, rest)) = follower.next().await {
        follower = rest;
        if !take(shared, connection, &mut now, (parse(bytes), token)) {
            return;
        }
        if is_all {
            let more = poll_fn(|context| follower.poll_more(context));
            let _ = tokio::time::timeout(Duration::from_millis(WAITS_MS), more).await;
        }
    }
}

/// If it has to begin anew, what it knew does not count.
fn refused(shared: &Shared, connection: u64, error: &Error) {
    let mut following = shared.following.borrow_mut();
    if following.connection == connection && matches!(error, Error::ChangesGone { .. }) {
        *following = Following { connection, changes: following.changes, ..Following::default() };
        drop(following);
        shared.trace(|| format!("who follows begins anew: {error}"));
    }
}

/// Takes what it was told over a connection; answers whether it is still there.
fn take(
    shared: &Shared,
    connection: u64,
    now: &mut Told,
    (changes, token): (Vec<(Vec<u8>, Version)>, Option<Box<str>>),
) -> bool {
    let mut following = shared.following.borrow_mut();
    if following.connection != connection {
        return false;
    }
    following.changes += changes.len() as u64;
    for (key, version) in changes {
        let before = now.insert(key.clone(), version);
        shared.checker.lock().told(&key, before, version);
        let newest = following.told.entry(key).or_insert(version);
        *newest = version.max(*newest);
    }
    if let Some(token) = token {
        following.since = Since::Token(Bytes::from(token.into_string()));
    }
    true
}
