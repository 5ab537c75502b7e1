//! Processes start, and do their work in the background.

use ladoga_env::Rng;

use super::{Event, World};

/// How often each node does what its background would do.
const BACKGROUND_MS: u64 = 1_000;

impl World {
    /// Starts a process, which has what the one before it made durable.
    pub(super) fn start(&mut self, node: usize) {
        let now_us = self.now_us();
        self.machines[node].catch_up(now_us);
        if self.machines[node].process.is_some() || !self.may_start(node) {
            return;
        }
        self.machines[node].disk.clear_faults();
        match self.machines[node].start(&self.common, &self.net) {
            Ok(()) => {
                self.shared.trace(|| format!("{node} starts"));
                match self.machines[node].cells() {
                    Ok(cells) => self.shared.checker.lock().starts(node, &cells),
                    Err(error) => {
                        self.shared.checker.lock().breaks(format!("{node} cannot read its cells: {error}"));
                    }
                }
                let session = self.machines[node].session;
                self.plan(BACKGROUND_MS, Event::Background { node, session, ticks: 0 });
            }
            Err(error) => {
                self.shared.trace(|| format!("{node} does not start: {error}"));
                self.machines[node].kill();
                self.plan(300, Event::Start { node });
            }
        }
    }

    /// Does the work of the engine's threads; and restarts a node whose store refuses writes, as an operator would.
    pub(super) fn background(&mut self, node: usize, session: u64, ticks: u64) {
        if self.machines[node].session != session {
            return;
        }
        let now_us = self.now_us();
        let machine = &mut self.machines[node];
        let Some(process) = &machine.process else { return };
        machine.catch_up(now_us);
        if machine.paused_until_us <= now_us {
            process.store.inner.do_background_work(ticks.is_multiple_of(5));
        }
        let is_poisoned = machine.is_poisoned() && machine.disk.is_powered();
        self.plan(BACKGROUND_MS, Event::Background { node, session, ticks: ticks + 1 });
        if is_poisoned && (self.is_calm || self.rng.below(5) == 0) {
            self.shared.trace(|| format!("{node} is started again, because its disk failed"));
            self.machines[node].kill();
            self.plan(200, Event::Start { node });
        }
    }
}
