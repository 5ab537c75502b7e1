//! Clients ask.

use std::rc::Rc;

use ladoga_env::Rng;

use super::{Event, World};
use crate::clients::Wish;
use crate::machine::REQUEST_MS;
use crate::request;

/// How long a client waits: longer than a coordinator that is alive takes, with all its attempts.
const CLIENT_MS: u64 = 10 * REQUEST_MS;

impl World {
    /// Somebody asks some node for something.
    pub(super) fn client(&mut self) {
        if self.is_calm {
            return;
        }
        let node = self.rng.below(self.machines.len() as u64) as usize;
        let (index, number, wish) = self.shared.clients.borrow_mut().next(&self.rng);
        let pause_ms = self.shared.clients.borrow().pause_ms(&self.rng);
        self.plan(pause_ms, Event::Client);
        self.ask(node, index, number, wish);
    }

    /// Somebody looks at everything there is, where something has just gone wrong.
    pub(super) fn look_around(&mut self, node: usize) {
        if self.is_calm {
            return;
        }
        let keys = self.shared.clients.borrow().keys.len();
        for index in 0..keys {
            let number = self.shared.clients.borrow_mut().next_number();
            self.ask(node, index, number, Wish::Get);
        }
    }

    /// Somebody writes everything there is.
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

    fn ask(&mut self, node: usize, index: usize, number: u64, wish: Wish) {
        let (key, replicas) = {
            let clients = self.shared.clients.borrow();
            (clients.keys[index].key.clone(), clients.keys[index].replicas)
        };
        let floor = self.shared.checker.lock().floor(&key);
        self.shared.trace(|| {
            format!("request {number} to {node}: {} {replicas:?} {}", key.escape_ascii(), brief(&wish))
        });
        self.plan(CLIENT_MS, Event::ClientGivesUp { number });
        let is_paused = self.machines[node].paused_until_us > self.now_us();
        let Some(process) = self.machines[node].process.as_ref().filter(|_| !is_paused) else {
            self.shared.summary.borrow_mut().failed += 1;
            return self.shared.clients.borrow_mut().ended(number);
        };
        let (service, shared) = (Rc::clone(process.node.service()), Rc::clone(&self.shared));
        process.tasks.spawn_local(async move {
            let answer = request::ask(&*service, key.clone(), wish.clone(), replicas).await;
            shared.ended(number, (&key, &wish, replicas), floor, answer);
        });
    }
}

fn brief(wish: &Wish) -> String {
    match wish {
        Wish::Get => "get".to_owned(),
        Wish::Delete => "delete".to_owned(),
        Wish::Put(value) => format!("put {} bytes", value.len()),
    }
}
