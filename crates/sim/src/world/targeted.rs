//! Scenes, one after the other.

use std::time::Duration;

use ladoga_cluster::Partition;
use ladoga_env::Rng;

use super::{Event, World};
use crate::faults::Loss;
use crate::scenes::{SCENES, Scene, Step};

/// Between two scenes: as long as the version clock of a node that was restarted may be ahead of the time. (Until then, versions are
/// counted up, and the order in which nodes give them says nothing about that in which requests came.)
const PAUSE_MS: u64 = 12_000;
/// How often it is looked whether all nodes are whole.
const LOOK_EVERY_MS: u64 = 200;
/// How much earlier or later a scene is, against all that a node does at intervals.
const SHIFT_MS: u64 = 1_000;

impl World {
    /// Plays a scene once all nodes are whole; or ends, if there are no more.
    pub(super) fn scene(&mut self, number: usize) {
        if let Some(machine) = self.machines.iter().find(|machine| !machine.is_whole()) {
            self.differences = format!("{} is not whole", machine.id);
            return self.plan(LOOK_EVERY_MS, Event::Scene { number });
        }
        let Some(&scene) = SCENES.get(number) else { return self.end_after_scenes() };
        let parts = self.parts(scene);
        let shift_ms = self.rng.below(SHIFT_MS);
        self.shared.trace(|| format!("{scene:?} with {parts:?} in {shift_ms} ms"));
        let mut ends_ms = 0;
        for (at_ms, step) in scene.cues(parts) {
            ends_ms = at_ms.max(ends_ms);
            self.plan(shift_ms + at_ms, Event::Step { number, step });
        }
        self.plan(shift_ms + ends_ms + PAUSE_MS, Event::Scene { number: number + 1 });
    }

    /// Which nodes play `a`, `b` and `c`.
    fn parts(&self, scene: Scene) -> [usize; 3] {
        let list = self.common.placement.preference_list(Partition::of(scene.key().as_bytes()));
        let mut parts = [0, 1, 2].map(|place: usize| list[place].index());
        let those_that_have_it = &mut parts[..scene.copies() as usize];
        those_that_have_it.rotate_left(self.rng.below(scene.copies() as u64) as usize);
        if self.rng.below(2) == 0 {
            those_that_have_it.swap(0, 1);
        }
        parts
    }

    /// Does what a scene has at this moment.
    pub(super) fn step(&mut self, number: usize, step: Step) {
        self.shared.trace(|| format!("{step:?}"));
        let is_fault = !matches!(step, Step::Ask { .. } | Step::Even | Step::Start { .. });
        self.shared.summary.borrow_mut().faults += u64::from(is_fault);
        match step {
            Step::Ask { node, asked, replicas } => {
                let asked = self.shared.clients.borrow_mut().next_of_scene(number, asked);
                self.ask_of(node, number, asked, replicas);
            }
            Step::Slow { from, to, ms } => {
                let [from, to] = [from, to].map(|node| self.machines[node].address);
                self.net.slow_down(from, to, Duration::from_millis(ms));
            }
            Step::Even => self.net.speed_up(),
            Step::Stop { node } => self.machines[node].kill(),
            Step::Start { node } => self.start(node),
            Step::LoseDisk { node } => self.lose_disk(node, 0, Loss::All),
            Step::Isolate { node, ms } => self.cut_off(node, ms),
        }
    }

    /// Every client reads everything once more, of every node: what they are told fits what they were told before.
    fn end_after_scenes(&mut self) {
        self.shared.trace(|| "the scenes are over".to_owned());
        self.is_calm = true;
        self.expect_answers();
    }
}
