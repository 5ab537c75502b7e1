//! A client that follows the changes of all keys, now at this node and then at another, with the token that it was given last. In the
//! end it was told what all nodes have, and over one connection the versions of a key never fall.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::Rng;
use ladoga_model::CellMark;
use ladoga_service::{ChangePiece, Error, Followed, KeySpan, KeyValue, Since};

use super::shared::Shared;
use super::{Event, World};
use crate::follower::{Told, Versions, may_begin_anew, parse};
use crate::values::Key;

/// How long it stays with a node, as a rule, and now and then.
const STAYS_MS: u64 = 2_000;
const STAYS_LONG_MS: u64 = 30_000;
/// How long it waits for changes before it asks whether there is a new token.
const WAITS_MS: u64 = 300;
/// By when it is told of everything at the end.
pub(super) const LATE_MS: u64 = 3 * STAYS_LONG_MS;

impl World {
    /// It goes to another node.
    pub(super) fn follow(&mut self) {
        let stays_ms = if self.follower_rng.below(8) == 0 { STAYS_LONG_MS } else { STAYS_MS };
        self.plan(1 + self.follower_rng.below(stays_ms), Event::Follow);
        let node = self.any(&self.follower_rng);
        let connection = self.shared.follower.borrow_mut().connect();
        let is_paused = self.machines[node].paused_until_us > self.now_us();
        let Some(process) = self.machines[node].process.as_ref().filter(|_| !is_paused) else { return };
        let (service, shared) = (Rc::clone(process.node.service()), Rc::clone(&self.shared));
        process.tasks.spawn_local(async move { converse(&*service, &shared, connection).await });
    }

    /// All nodes agree: it is to be told what they have.
    pub(super) fn expect_to_be_told(&self) {
        let members = &self.common.members;
        let all: Result<Vec<_>, _> = members.iter().map(|&member| self.machines[member].cells()).collect();
        let Some((cells, others)) = all.as_ref().ok().and_then(|all| all.split_first()) else { return };
        let clients = self.shared.clients.borrow();
        // What fewer nodes than all have, those alone tell.
        let keys = clients.keys.iter().filter(|plan| plan.copies() == members.len()).map(|plan| &plan.key);
        let versions = keys.filter_map(|key| Some((key.clone(), cells.get(key)?.stamp.version)));
        // What was written for fewer nodes than there are now need not be on all.
        let has = |cells: &BTreeMap<Key, CellMark>, key: &Key, version| {
            cells.get(key).is_some_and(|cell| cell.stamp.version == version)
        };
        let is_relisted = self.relisting.has_changed();
        let versions = versions
            .filter(|(key, version)| !is_relisted || others.iter().all(|cells| has(cells, key, *version)));
        let mut follower = self.shared.follower.borrow_mut();
        follower.expected = versions.collect();
        let is_passing = |cell: &CellMark| cell.is_tombstone || cell.deleted_at().is_some();
        let passing = cells.iter().filter(|(_, cell)| is_passing(cell));
        follower.passing = passing.map(|(key, _)| key.clone()).collect();
    }
}

async fn converse(service: &impl KeyValue, shared: &Shared, connection: u64) {
    let span = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
    let since = shared.follower.borrow().since.clone();
    let mut follower = match service.follow(Followed { span, since }, Box::new(Versions)).await {
        Ok(follower) => follower,
        Err(error) => return refused(shared, connection, &error),
    };
    let mut now = Told::new();
    while let Ok((ChangePiece { bytes, token, is_all }, rest)) = follower.next().await {
        follower = rest;
        if !take(shared, connection, &mut now, (bytes, token)) {
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
    let mut follower = shared.follower.borrow_mut();
    if follower.connection == connection && matches!(error, Error::ChangesGone { .. }) {
        follower.begin_anew();
        drop(follower);
        shared.trace(|| format!("who follows begins anew: {error}"));
        let happened = *shared.summary.borrow();
        if !may_begin_anew(&happened) {
            let broken = format!(
                "who follows has to begin anew, and nothing happened that makes tokens void: {error}"
            );
            shared.checker.lock().breaks(broken);
        }
    }
}

/// Takes what it was told over a connection; answers whether it is still there.
fn take(
    shared: &Shared,
    connection: u64,
    now: &mut Told,
    (bytes, token): (Vec<u8>, Option<Box<str>>),
) -> bool {
    let mut follower = shared.follower.borrow_mut();
    if follower.connection != connection {
        return false;
    }
    for (key, version) in parse(bytes) {
        let before = now.insert(key.clone(), version);
        shared.checker.lock().told(&key, before, version);
        follower.take(key, version);
    }
    if let Some(token) = token {
        follower.since = Since::Token(Bytes::from(token.into_string()));
    }
    true
}
