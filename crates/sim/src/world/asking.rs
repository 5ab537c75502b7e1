//! Clients ask.

use std::rc::Rc;

use ladoga_env::Rng;
use ladoga_model::Replicas;

use super::{Event, World};
use crate::clients::Wish;
use crate::faults::Trouble;
use crate::machine::REQUEST_MS;
use crate::request::{self, Request};

/// How long a client waits: longer than a coordinator that is alive takes, with all its attempts.
const CLIENT_MS: u64 = 10 * REQUEST_MS;
/// How often clients contend for a key, on average, and how long packets take during that time.
const CONTENTION_EVERY_MS: u64 = 18_000;
const CONTENTION_DELAYS_MS: [u64; 4] = [0, 20, 100, 300];
const CONTENTION_MS: u64 = 2_000;

impl World {
    /// A client sends a request to some node.
    pub(super) fn client(&mut self) {
        if self.is_calm {
            return;
        }
        let node = self.any(&self.rng);
        let (index, number, wish) = self.shared.clients.borrow_mut().next(&self.rng);
        let pause_ms = self.shared.clients.borrow().pause_ms(&self.rng);
        self.plan(pause_ms, Event::Client);
        self.ask(node, index, number, wish);
    }

    /// Several clients contend for a key, while messages take long, as often as not, or a connection breaks.
    pub(super) fn contention(&mut self) {
        if self.is_calm {
            return;
        }
        self.plan(CONTENTION_EVERY_MS / 2 + self.rng.below(CONTENTION_EVERY_MS), Event::Contention);
        if !self.relisting.is_quiet && self.slow_until_us < self.now_us() {
            let delay_ms = CONTENTION_DELAYS_MS[self.rng.below(CONTENTION_DELAYS_MS.len() as u64) as usize];
            self.befall(Trouble::Slow { delay_ms, ms: CONTENTION_MS });
        }
        if self.rng.below(3) == 0 {
            let node = self.any(&self.rng);
            let after_ms = self.rng.below(CONTENTION_MS / 2);
            self.plan(after_ms, Event::Befall(Trouble::Kill { node, down_ms: 1 + self.rng.below(50) }));
        }
        self.shared.clients.borrow_mut().contend(&self.rng);
    }

    /// Those that contend ask again as soon as they are answered.
    pub(super) fn let_contenders_ask(&mut self) {
        loop {
            let next = self.shared.clients.borrow_mut().next_of_contender(&self.rng);
            let Some((index, number, wish)) = next else { return };
            let node = self.any(&self.rng);
            self.ask(node, index, number, wish);
        }
    }

    /// A client reads everything after something has just gone wrong.
    pub(super) fn look_around(&mut self, node: usize) {
        if !self.is_calm {
            self.look_at_all(node);
        }
    }

    /// A client reads everything.
    fn look_at_all(&mut self, node: usize) {
        let keys = self.shared.clients.borrow().keys.len();
        for index in 0..keys {
            let number = self.shared.clients.borrow_mut().next_number();
            self.ask(node, index, number, Wish::Get);
        }
    }

    /// A client writes everything.
    pub(super) fn write_around(&mut self, node: usize) {
        if self.is_calm {
            return;
        }
        let keys = self.shared.clients.borrow().keys.len();
        for index in 0..keys {
            let write = self.shared.clients.borrow_mut().next_write(index);
            if let Some((number, wish)) = write {
                self.ask(node, index, number, wish);
            }
        }
    }

    /// Somebody deletes everything there is.
    pub(super) fn delete_around(&mut self, node: usize) {
        if self.is_calm {
            return;
        }
        let keys = self.shared.clients.borrow().keys.len();
        for index in 0..keys {
            let deletion = self.shared.clients.borrow_mut().next_deletion(index);
            if let Some((number, wish)) = deletion {
                self.ask(node, index, number, wish);
            }
        }
    }

    fn ask(&mut self, node: usize, index: usize, number: u64, wish: Wish) {
        let replicas = self.shared.clients.borrow().keys[index].replicas(&self.rng);
        self.ask_of(node, index, (number, wish), replicas);
    }

    /// The same of so many nodes.
    pub(super) fn ask_of(
        &mut self,
        node: usize,
        index: usize,
        (number, wish): (u64, Wish),
        replicas: Replicas,
    ) {
        let key = self.shared.clients.borrow().keys[index].key.clone();
        let floor = self.shared.checker.lock().floor(&key);
        self.shared.trace(|| {
            format!("request {number} to {node}: {} {replicas:?} {}", key.escape_ascii(), brief(&wish))
        });
        self.plan(CLIENT_MS, Event::ClientGivesUp { number });
        let is_paused = self.machines[node].paused_until_us > self.now_us()
            || self.shared.clients.borrow().keys[index].is_paused();
        let Some(process) = self.machines[node].process.as_ref().filter(|_| !is_paused) else {
            self.shared.summary.borrow_mut().failed += 1;
            return self.shared.clients.borrow_mut().ended(number);
        };
        let (service, shared) = (Rc::clone(process.node.service()), Rc::clone(&self.shared));
        let request = Request { number, began_us: shared.now_us(), node, key, wish, replicas };
        shared.histories.borrow_mut().begins(&request);
        shared.one_copy.borrow_mut().begins(&request);
        process.tasks.spawn_local(async move {
            let answer = request::ask(&*service, &request).await;
            shared.ended(&request, floor, answer);
        });
    }
}

fn brief(wish: &Wish) -> String {
    match wish {
        Wish::Get => "get".to_owned(),
        Wish::Delete => "delete".to_owned(),
        Wish::Increment => "increment".to_owned(),
        Wish::PutIf { value, expected } => format!("put {} bytes if {expected:?}", value.len()),
        Wish::Put { value, ttl: None } => format!("put {} bytes", value.len()),
        Wish::Put { value, ttl: Some(ttl) } => format!("put {} bytes for {} ms", value.len(), ttl.ms()),
    }
}
