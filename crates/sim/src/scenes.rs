//! Scenes: a few requests for one key of three nodes, and what goes wrong beside them, each at the moment at which it can break a
//! promise. A planted bug shows in its scene whatever else happens, while faults at any time meet that moment in few seeds.
//!
//! The nodes play the parts `a`, `b` and `c`, in another order each time. What is sent takes a few milliseconds, unless its path is
//! slow at that moment: so one message is held up, and meets what happens meanwhile. As long as nothing is planted, requests
//! wait, are refused or overtaken, and what clients are told has an order.
//!
//! The first four begin alike: `c` has a plain write that it is going to tell the others late, and a conditional write is decided
//! without it by a majority of `a` and `b`. `crates/cluster/tests/explore` has all orders of their messages.

use ladoga_model::Replicas;

const ALL: Replicas = Replicas { ack: 3, from: 3 };
const MAJORITY: Replicas = Replicas { ack: 2, from: 3 };
/// Of a key that only `a` and `b` have.
const BOTH: Replicas = Replicas { ack: 2, from: 2 };
const EITHER: Replicas = Replicas { ack: 1, from: 2 };

/// When the requests begin, once the first value is everywhere.
const BEGINS_MS: u64 = 50;
/// How long the plain write of `c` is on its way, if not nearly as long as it may take.
const HELD_MS: u64 = 900;
/// How long the acceptance of the conditional write is on its way.
const ACCEPTED_LATE_MS: u64 = 600;

/// What breaks which promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// A node is restarted between its promise and the acceptance; then the older write arrives.
    RestartBetweenRounds,
    /// The older write arrives nearly as late as it may, and the acceptance later.
    WaitBetweenRounds,
    /// Between the two rounds, a read finds the older write, and repairs who promised not to take it.
    ReadBetweenRounds,
    /// A condition is not met because of a write that one node has. A read of the two others follows.
    RefusedByOne,
    /// A node loses its disk, and is asked to decide with one that missed what it had.
    DecidedWithoutDisk,
    /// A write that one node lacks was read. It is overtaken, and then arrives there.
    OvertakenAfterRead,
    /// A node that is no replica of the key has a hint, and a promise of a coordinator that is gone keeps it out.
    TakenOverFromOutside,
    /// A value that expires in an hour was on two nodes, of which one lost its disk, and became whole again.
    ExpiringIsCopied,
    /// While a node is away, another one is restarted many times within a second. Then values that expire soon go through it.
    RestartsInARow,
}

pub(crate) const SCENES: [Scene; 9] = [
    Scene::RestartBetweenRounds,
    Scene::WaitBetweenRounds,
    Scene::ReadBetweenRounds,
    Scene::RefusedByOne,
    Scene::DecidedWithoutDisk,
    Scene::OvertakenAfterRead,
    Scene::TakenOverFromOutside,
    Scene::ExpiringIsCopied,
    Scene::RestartsInARow,
];

/// What a client asks for in a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Put,
    /// A value that lives longer than the scene.
    PutForAnHour,
    /// One that does not.
    PutForTwoSeconds,
    /// A value, if the key has what a client saw last.
    PutIf,
    Increment,
    Get,
}

/// What happens at one moment of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// What one node sends to another takes so long from now on.
    Slow { from: usize, to: usize, ms: u64 },
    /// What is sent from now on takes as long as usual, on all paths.
    Even,
    /// A client asks a node.
    Ask { node: usize, asked: Asked, replicas: Replicas },
    /// A process ends.
    Stop { node: usize },
    /// One begins.
    Start { node: usize },
    /// A node gets an empty disk, and starts at once.
    LoseDisk { node: usize },
    /// Nothing gets from or to a node for so long.
    Isolate { node: usize, ms: u64 },
}

/// When in a scene, in milliseconds, and what.
pub(crate) type Cue = (u64, Step);

impl Scene {
    /// The key that it is about: no two have the same. Its name says what its values are.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Scene::RestartBetweenRounds => "mixed: restart",
            Scene::WaitBetweenRounds => "mixed: wait",
            Scene::ReadBetweenRounds => "mixed: read",
            Scene::RefusedByOne => "mixed: refused",
            Scene::DecidedWithoutDisk => "counter: lost disk",
            Scene::OvertakenAfterRead => "key: overtaken",
            Scene::TakenOverFromOutside => "mixed: outside",
            Scene::ExpiringIsCopied => "key: expiring",
            Scene::RestartsInARow => "key: restarts",
        }
    }

    /// How many nodes have the key. If these are not all, the first two of its preference list play `a` and `b`.
    pub(crate) const fn copies(self) -> u32 {
        if matches!(self, Scene::TakenOverFromOutside) { BOTH.from } else { ALL.from }
    }

    /// What happens, with these nodes as `a`, `b` and `c`. Two of one moment happen in this order.
    pub(crate) fn cues(self, parts: [usize; 3]) -> Vec<Cue> {
        match self {
            Scene::RestartBetweenRounds => restart_between_rounds(parts),
            Scene::WaitBetweenRounds => wait_between_rounds(parts),
            Scene::ReadBetweenRounds => read_between_rounds(parts),
            Scene::RefusedByOne => refused_by_one(parts),
            Scene::DecidedWithoutDisk => decided_without_disk(parts),
            Scene::OvertakenAfterRead => overtaken_after_read(parts),
            Scene::TakenOverFromOutside => taken_over_from_outside(parts),
            Scene::ExpiringIsCopied => expiring_is_copied(parts),
            Scene::RestartsInARow => restarts_in_a_row(parts),
        }
    }
}

const fn ask(node: usize, asked: Asked) -> Step {
    Step::Ask { node, asked, replicas: MAJORITY }
}

const fn slow(from: usize, to: usize, ms: u64) -> Step {
    Step::Slow { from, to, ms }
}

/// A value that all nodes have; and one that only `c` has for so long.
fn held_write([a, b, c]: [usize; 3], held_ms: u64) -> Vec<Cue> {
    vec![
        (0, ask(a, Asked::Put)),
        (BEGINS_MS, slow(c, a, held_ms)),
        (BEGINS_MS, slow(c, b, held_ms)),
        (BEGINS_MS, ask(c, Asked::Put)),
        (BEGINS_MS + 1, Step::Even),
    ]
}

/// The same, and a conditional write through `a`: `a` and `b` promise it, and `b` is asked so late to accept it.
fn between_rounds([a, b, c]: [usize; 3], held_ms: u64, accepted_late_ms: u64) -> Vec<Cue> {
    let mut cues = held_write([a, b, c], held_ms);
    cues.extend([
        (BEGINS_MS + 10, slow(a, c, accepted_late_ms)),
        (BEGINS_MS + 10, ask(a, Asked::PutIf)),
        // What asks `b` to promise is on its way, as fast as usual.
        (BEGINS_MS + 11, Step::Even),
        (BEGINS_MS + 11, slow(a, b, accepted_late_ms)),
    ]);
    cues
}

/// Reads through each node, in the end.
fn reads(from_ms: u64) -> impl Iterator<Item = Cue> {
    (0..3).flat_map(move |node| [from_ms, from_ms + 1_000].map(|at_ms| (at_ms, ask(node, Asked::Get))))
}

fn restart_between_rounds(parts @ [_, b, _]: [usize; 3]) -> Vec<Cue> {
    let mut cues = between_rounds(parts, HELD_MS, ACCEPTED_LATE_MS);
    // The connections break, and whoever waits for an answer asks again.
    let restart = [Step::Even, Step::Stop { node: b }, Step::Start { node: b }];
    cues.extend(restart.map(|step| (BEGINS_MS + 30, step)));
    cues.extend(reads(2_000));
    cues
}

fn wait_between_rounds(parts: [usize; 3]) -> Vec<Cue> {
    // It may take 1,000 ms. It arrives after 950, and what asks `b` to accept is later.
    let mut cues = between_rounds(parts, HELD_MS + 50, HELD_MS + 70);
    cues.push((BEGINS_MS + 40, Step::Even));
    cues.extend(reads(2_000));
    cues
}

fn read_between_rounds(parts @ [_, b, _]: [usize; 3]) -> Vec<Cue> {
    let mut cues = between_rounds(parts, HELD_MS, ACCEPTED_LATE_MS);
    cues.extend([
        // What `a` has, `b` does not hear in time.
        (BEGINS_MS + 25, ask(b, Asked::Get)),
        (BEGINS_MS + 250, Step::Even),
    ]);
    cues.extend(reads(2_000));
    cues
}

fn refused_by_one([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let mut cues = held_write([a, b, c], HELD_MS);
    cues.extend([
        // `b` decides with `c`.
        (BEGINS_MS + 10, slow(a, b, ACCEPTED_LATE_MS)),
        (BEGINS_MS + 10, ask(b, Asked::PutIf)),
        (BEGINS_MS + 50, Step::Even),
        // And `a` reads with `b`.
        (BEGINS_MS + 50, slow(c, a, ACCEPTED_LATE_MS)),
        (BEGINS_MS + 50, ask(a, Asked::Get)),
        (BEGINS_MS + 100, Step::Even),
    ]);
    cues.extend(reads(2_000));
    cues
}

fn decided_without_disk([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let mut cues = vec![
        (0, ask(a, Asked::Increment)),
        (BEGINS_MS, Step::Stop { node: a }),
        // (What is kept for `a` is lost with the disk.)
        (BEGINS_MS + 10, ask(b, Asked::Increment)),
        (BEGINS_MS + 200, ask(b, Asked::Increment)),
        (1_500, Step::Start { node: a }),
        (1_500, Step::LoseDisk { node: b }),
        // By now `b` has heard from both that its disk is another one.
        (1_600, Step::Isolate { node: c, ms: 1_500 }),
    ];
    cues.extend((1_605..2_000).step_by(60).map(|at_ms| (at_ms, ask(a, Asked::Increment))));
    cues.extend(reads(6_000));
    cues
}

fn overtaken_after_read([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let mut cues = vec![
        (0, ask(a, Asked::Put)),
        (BEGINS_MS, slow(a, b, ACCEPTED_LATE_MS)),
        (BEGINS_MS, Step::Ask { node: a, asked: Asked::Put, replicas: ALL }),
        (BEGINS_MS + 1, Step::Even),
        (BEGINS_MS + 20, ask(c, Asked::Get)),
        (BEGINS_MS + 80, ask(c, Asked::Put)),
    ];
    cues.extend(reads(2_000));
    cues
}

/// Once a node took over by asking all nodes, if it had nothing of the key: a majority of those need not have a replica in it that
/// has what was acknowledged, and those that are no replicas got copies.
fn taken_over_from_outside([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let ask_of = |node, asked, replicas| Step::Ask { node, asked, replicas };
    let mut cues = vec![
        (0, ask_of(a, Asked::Put, BOTH)),
        // `a` has it at once, and `b` is to get it later: as a hint, since it has promised something newer by then.
        (BEGINS_MS, slow(c, b, 300)),
        (BEGINS_MS, ask_of(c, Asked::Put, EITHER)),
        (BEGINS_MS + 1, Step::Even),
        // `b` promises, and `a` does not hear of it.
        (BEGINS_MS + 10, slow(b, a, HELD_MS)),
        (BEGINS_MS + 10, ask_of(a, Asked::PutIf, BOTH)),
        (BEGINS_MS + 40, Step::Even),
        (BEGINS_MS + 40, Step::Stop { node: a }),
        (BEGINS_MS + 40, Step::Start { node: a }),
    ];
    let reads = reads(4_000).map(|(at_ms, _)| (at_ms, ask_of(b, Asked::Get, BOTH)));
    cues.extend(reads);
    cues
}

fn expiring_is_copied([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let mut cues = vec![
        (0, Step::Stop { node: a }),
        // (What is kept for `a` is lost with the disk.)
        (10, ask(b, Asked::PutForAnHour)),
        (200, Step::Start { node: a }),
        (200, Step::LoseDisk { node: b }),
    ];
    for alone_ms in [10_000, 25_000] {
        cues.push((alone_ms, Step::Isolate { node: c, ms: 1_500 }));
        cues.extend([a, b].map(|node| (alone_ms + 100, ask(node, Asked::Get))));
    }
    cues.extend(reads(30_000));
    cues
}

fn restarts_in_a_row([a, b, c]: [usize; 3]) -> Vec<Cue> {
    let mut cues = vec![(0, ask(a, Asked::Put)), (BEGINS_MS, Step::Stop { node: c })];
    for at_ms in (100..1_100).step_by(50) {
        cues.extend([Step::Stop { node: a }, Step::Start { node: a }].map(|step| (at_ms, step)));
    }
    for (node, at_ms) in [(a, 1_500), (b, 1_800)] {
        cues.push((at_ms, ask(node, Asked::PutForTwoSeconds)));
        cues.extend([a, b].map(|reader| (at_ms + 100, ask(reader, Asked::Get))));
    }
    cues.extend([a, b].map(|node| (5_000, ask(node, Asked::Get))));
    cues.push((5_500, Step::Start { node: c }));
    cues.extend(reads(8_000));
    cues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_have_a_key_each_and_reads_at_the_end() {
        for (number, scene) in SCENES.into_iter().enumerate() {
            assert!(SCENES[..number].iter().all(|other| other.key() != scene.key()), "{scene:?}");
            let cues = scene.cues([2, 0, 1]);
            let last = cues.iter().max_by_key(|(at_ms, _)| *at_ms).map(|(_, step)| *step);
            assert!(matches!(last, Some(Step::Ask { asked: Asked::Get, .. })), "{scene:?}");
        }
    }
}
