use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ladoga_backup::Missing;

use super::super::Failure;
use super::checkpoint::{Checkpoint, ClusterPart, Place};
use crate::client::{KeptConnection, Url};

/// How often checkpoints of a cluster are made anew if they do not fit together.
const ATTEMPTS_MAX: usize = 10;
/// The pause before that.
const PAUSE: Duration = Duration::from_secs(1);
/// How long another node is waited for once a backup can do without it, before it is asked whether it lives: it may be frozen.
pub(super) const REST_WAIT: Duration = Duration::from_secs(30);
/// How long it may take to say that, with all that it takes to connect.
const LIFE_WAIT: Duration = Duration::from_secs(10);

/// Checkpoints of the nodes of a cluster, or of a node on its own, in which every write is that was acknowledged before, by as many nodes
/// as writes wait for.
pub(super) struct Cut {
    /// All nodes of the cluster; none of a node on its own.
    pub(super) cluster: Vec<String>,
    pub(super) ack: usize,
    pub(super) nodes: Vec<(String, Url, Checkpoint)>,
    pub(super) missing: Vec<Missing>,
}

impl Cut {
    /// Asks this node, and by what it says all others of its cluster at the same time.
    pub(super) fn take(url: &Url, ack: Option<usize>) -> Result<Cut, Failure> {
        for attempt in 0.. {
            let cut = Cut::take_once(url, ack)?;
            match cut.gap() {
                None => return Ok(cut),
                Some(gap) if attempt + 1 == ATTEMPTS_MAX => {
                    return Err(Failure::Failed(format!(
                        "the nodes were not ready for a backup: {gap}; try again"
                    )));
                }
                // It closes as soon as all of them are asked at about the same time: nodes compare each other every few seconds.
                Some(_) => drop(cut),
            }
            thread::sleep(PAUSE);
        }
        unreachable!("the last attempt returns")
    }

    fn take_once(url: &Url, ack: Option<usize>) -> Result<Cut, Failure> {
        let first = Checkpoint::begin(url)?;
        let Some(part) = first.part.clone() else {
            let (ack, nodes) = (ack_of(url, ack, 0)?, vec![(url.to_string(), url.clone(), first)]);
            return Ok(Cut { cluster: Vec::new(), ack, nodes, missing: Vec::new() });
        };
        let Place { nodes, own } = part.place;
        let ack_max = nodes.len();
        let ack = ack_of(url, ack, ack_max)?;
        let mut cut = Cut { cluster: nodes.clone(), ack, nodes: Vec::new(), missing: Vec::new() };
        let first = counted(first, &nodes, own);
        let (asked, expected) = (url.clone(), nodes.clone());
        let begin = move |place: usize, name: &str| {
            begin_other(&asked, name).map_err(why).and_then(|begun| counted(begun, &expected, place))
        };
        let begun = of_all(&nodes, (own, first), (ack, REST_WAIT), begin, lives(url));
        for (place, (name, begun)) in nodes.iter().zip(begun).enumerate() {
            match begun {
                Ok(begun) => {
                    let reached = if place == own { Some(url.clone()) } else { url.of_sibling(name) };
                    cut.nodes.push((name.clone(), reached.unwrap_or_else(|| url.clone()), begun));
                }
                Err(why) => cut.missing.push(Missing { url: name.clone(), why }),
            }
        }
        if cut.missing.len() >= ack {
            let missing: Vec<String> =
                cut.missing.iter().map(|Missing { url, why }| format!("{url}: {why}")).collect();
            let (count, all) = (cut.missing.len(), ack_max);
            return Err(Failure::Failed(format!("{}: {}", too_few(count, all, ack), missing.join("; "))));
        }
        Ok(cut)
    }

    /// What makes the checkpoints not fit together, if anything does.
    fn gap(&self) -> Option<String> {
        gap(self.nodes.iter().filter_map(|(name, _, begun)| Some((name.as_str(), begun.part.as_ref()?))))
    }
}

/// So many nodes are missing that writes may be, which `ack` nodes acknowledge.
pub(super) fn too_few(missing: usize, all: usize, ack: usize) -> String {
    let (verb, nodes) = (if missing == 1 { "is" } else { "are" }, super::super::counted(ack as u64, "node"));
    format!("{missing} of {all} nodes {verb} missing, so writes that {nodes} acknowledged may be, too")
}

/// How many nodes acknowledge a write: by default, most of so many. There are none of a node on its own.
pub(super) fn ack_of(url: &Url, ack: Option<usize>, nodes: usize) -> Result<usize, Failure> {
    let found = ack.unwrap_or(nodes / 2 + 1);
    if found <= nodes.max(1) {
        return Ok(found);
    }
    let expected = match nodes {
        0 => format!("1: {url} is a node on its own"),
        nodes => format!("1 to {nodes}, the nodes of the cluster"),
    };
    Err(Failure::Usage(format!("--ack is {found}, expected {expected}")))
}

/// Asks all of these nodes at the same time, but one, which has answered already. Once less than `ack` are missing, the next answer is
/// waited for only so long, and for longer from those that live.
pub(super) fn of_all<T: Send + 'static>(
    names: &[String],
    (own, first): (usize, Result<T, String>),
    (ack, rest_wait): (usize, Duration),
    ask: impl Fn(usize, &str) -> Result<T, String> + Send + Sync + 'static,
    lives: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Vec<Result<T, String>> {
    let (answers, answered) = channel();
    let (ask, lives) = (Arc::new(ask), Arc::new(lives));
    let mut waiting: BTreeSet<usize> = (0..names.len()).filter(|place| *place != own).collect();
    for &place in &waiting {
        let (ask, answers, name) = (Arc::clone(&ask), answers.clone(), names[place].clone());
        // Who is no longer waited for may answer all the same, to nobody.
        thread::spawn(move || answers.send((place, ask(place, &name))));
    }
    drop(answers);
    let no_answer = |_| Err("it has not answered in time".to_owned());
    let mut all: Vec<Result<T, String>> = names.iter().map(no_answer).collect();
    all[own] = first;
    while !waiting.is_empty() {
        let is_enough = all.iter().filter(|answer| answer.is_err()).count() < ack;
        let next = if is_enough {
            answered.recv_timeout(rest_wait)
        } else {
            answered.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => waiting = living(&waiting, names, &lives),
            // Those that asked the others are gone without an answer.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        for (place, answer) in next.into_iter().chain(answered.try_iter()) {
            waiting.remove(&place);
            all[place] = answer;
        }
    }
    all
}

/// Those of the nodes at these places that live.
fn living(
    places: &BTreeSet<usize>,
    names: &[String],
    lives: &Arc<impl Fn(&str) -> bool + Send + Sync + 'static>,
) -> BTreeSet<usize> {
    let (answers, answered) = channel();
    for &place in places {
        let (lives, answers, name) = (Arc::clone(lives), answers.clone(), names[place].clone());
        thread::spawn(move || lives(&name).then(|| answers.send(place)));
    }
    drop(answers);
    std::iter::from_fn(|| answered.recv_timeout(LIFE_WAIT).ok()).collect()
}

/// Whether another node of the cluster of this one answers.
pub(super) fn lives(url: &Url) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let url = url.clone();
    move |name| url.of_sibling(name).is_some_and(|of| KeptConnection::is_answered(&of))
}

/// Whether one of the nodes may have dropped a deletion that another one, in its checkpoint, has not heard of: then the value would
/// come back.
fn gap<'c>(parts: impl Iterator<Item = (&'c str, &'c ClusterPart)> + Clone) -> Option<String> {
    let (dropper, dropped) =
        parts.clone().map(|(name, part)| (name, part.dropped_before)).max_by_key(|it| it.1)?;
    let (behind, synced) = parts.map(|(name, part)| (name, part.synced_before)).min_by_key(|it| it.1)?;
    (dropped > synced).then(|| format!("{dropper} has dropped deletions that {behind} may not have had yet"))
}

/// A checkpoint counts if it is of this node, and has all that the node acknowledged.
fn counted(begun: Checkpoint, nodes: &[String], place: usize) -> Result<Checkpoint, String> {
    match &begun.part {
        Some(part) if part.place.nodes != nodes || part.place.own != place => {
            Err("it is of another cluster, or knows other nodes".to_owned())
        }
        None => Err("it is a node on its own".to_owned()),
        Some(part) if !part.is_whole => {
            Err("it is being rebuilt, or has not heard from the others yet".to_owned())
        }
        Some(_) => Ok(begun),
    }
}

fn begin_other(url: &Url, name: &str) -> Result<Checkpoint, Failure> {
    let wrong = || Failure::Failed(format!("'{name}' is no URL of a node"));
    Checkpoint::begin(&url.of_sibling(name).ok_or_else(wrong)?)
}

pub(super) fn why(failure: Failure) -> String {
    match failure {
        Failure::Usage(why) | Failure::Failed(why) => why,
        Failure::NobodyListens => "the connection broke".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frozen node was waited for five minutes, in which the checkpoints of the others were released.
    #[test]
    fn a_node_that_does_not_answer_is_left_out_once_the_others_are_enough() {
        let names = ["own", "good", "frozen"].map(str::to_owned);
        let (thaw, frozen) = channel::<()>();
        let frozen = std::sync::Mutex::new(frozen);
        let ask = move |place, name: &str| match name {
            "frozen" => {
                frozen.lock().expect("one asks").recv().map(|()| place).map_err(|_| "late".to_owned())
            }
            _ => Ok(place),
        };
        let answered = of_all(&names, (0, Ok(0)), (2, Duration::ZERO), ask, |name| name != "frozen");
        assert_eq!(answered, [Ok(0), Ok(1), Err("it has not answered in time".to_owned())]);
        drop(thaw);
    }

    /// It was waited for without a pause, for ever.
    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        let names = ["own", "bad"].map(str::to_owned);
        for ack in [1, 2] {
            let ask = |_, _: &str| panic!("it is meant to");
            let answered = of_all(&names, (0, Ok(0)), (ack, Duration::from_secs(1)), ask, |_| true);
            assert_eq!(answered, [Ok(0), Err("it has not answered in time".to_owned())]);
        }
    }

    #[test]
    fn a_node_that_is_slow_is_waited_for_if_the_others_are_too_few() {
        let names = ["own", "good", "slow"].map(str::to_owned);
        let (begins, begun) = channel::<()>();
        let begun = std::sync::Mutex::new(begun);
        let begins = std::sync::Mutex::new(Some(begins));
        let ask = move |place, name: &str| match name {
            "slow" => begun.lock().expect("one asks").recv().map(|()| place).map_err(|_| "late".to_owned()),
            _ => {
                let begins = begins.lock().expect("one asks").take().expect("it is asked once");
                begins.send(()).expect("the other one waits");
                Err("it is being rebuilt".to_owned())
            }
        };
        let answered = of_all(&names, (0, Ok(0)), (2, Duration::ZERO), ask, |_| false);
        assert_eq!(answered, [Ok(0), Err("it is being rebuilt".to_owned()), Ok(2)]);
    }

    /// It was left out if its checkpoint took half a minute longer than those of the others.
    #[test]
    fn a_node_that_is_slow_and_lives_is_waited_for_although_the_others_are_enough() {
        let names = ["own", "slow", "frozen"].map(str::to_owned);
        let (thaw, frozen) = channel::<()>();
        let (says, said) = channel();
        let (frozen, said) = (std::sync::Mutex::new(frozen), std::sync::Mutex::new(said));
        let ask = move |place, name: &str| {
            if name == "frozen" {
                return frozen
                    .lock()
                    .expect("one asks")
                    .recv()
                    .map(|()| place)
                    .map_err(|_| "late".to_owned());
            }
            let said = said.lock().expect("one asks");
            (0..3).for_each(|_| said.recv().expect("it is asked whether it lives"));
            Ok(place)
        };
        let lives = move |name: &str| name == "slow" && says.send(()).is_ok();
        let answered = of_all(&names, (0, Ok(0)), (3, Duration::ZERO), ask, lives);
        assert_eq!(answered, [Ok(0), Ok(1), Err("it has not answered in time".to_owned())]);
        drop(thaw);
    }

    /// What nodes say: before when each has everything, and before when it may have dropped deletions.
    fn gap_of(said: &[(u64, u64)]) -> Option<String> {
        let names: Vec<String> = (0..said.len()).map(|own| format!("http://n{own}")).collect();
        let part = |(own, &(synced_before, dropped_before)): (usize, &(u64, u64))| ClusterPart {
            place: Place { nodes: names.clone(), own },
            is_whole: true,
            synced_before,
            dropped_before,
            incarnation: None,
        };
        let parts: Vec<ClusterPart> = said.iter().enumerate().map(part).collect();
        gap(names.iter().map(String::as_str).zip(&parts))
    }

    /// The deletion has the timestamp 50. One node had it, and dropped it as all others had heard of it by then; the checkpoint of
    /// another one is from before that, and has the value.
    #[test]
    fn a_dropped_deletion_of_which_another_checkpoint_has_not_heard_is_a_gap() {
        let said = gap_of(&[(90, 51), (90, 0), (50, 0)]).expect("the value would come back");
        assert_eq!(said, "http://n0 has dropped deletions that http://n2 may not have had yet");
        // In whatever order the nodes are asked.
        assert!(gap_of(&[(50, 0), (90, 51), (90, 0)]).is_some());
        assert!(gap_of(&[(0, 0), (90, 1)]).is_some(), "it has heard of nothing yet");
        assert!(gap_of(&[(u64::MAX, u64::MAX), (u64::MAX - 1, 0)]).is_some());
    }

    #[test]
    fn checkpoints_fit_if_all_have_what_one_has_dropped() {
        assert_eq!(gap_of(&[(90, 51), (90, 0), (51, 0)]), None, "both are about what is older");
        assert_eq!(gap_of(&[(90, 40), (80, 41), (41, 0)]), None);
        assert_eq!(gap_of(&[(0, 0), (0, 0)]), None, "nothing was dropped");
        assert_eq!(gap_of(&[(90, 51)]), None, "the others are missing");
        assert_eq!(gap_of(&[]), None);
    }
}
