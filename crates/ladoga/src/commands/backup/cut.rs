use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ladoga_backup::Missing;
use ladoga_env::Clock;

use super::super::Failure;
use super::checkpoint::{Checkpoint, ClusterPart, Place};
use crate::client::{KeptConnection, Url};

/// How often checkpoints of a cluster are made anew if they do not fit together.
const ATTEMPTS_MAX: usize = 10;
/// The pause before that.
const PAUSE: Duration = Duration::from_secs(1);
/// If the checkpoint of the first node took longer, it is made again together with those of the others.
const ALONE_NS_MAX: u64 = 5_000_000_000;
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
    /// Which of the nodes was asked by its URL; none of a node on its own.
    place: Option<Place>,
}

impl Cut {
    /// Asks this node, and by what it says all others of its cluster at the same time.
    pub(super) fn take(clock: &dyn Clock, url: &Url, ack: Option<usize>) -> Result<Cut, Failure> {
        let mut known = None;
        for attempt in 0.. {
            let cut = Cut::take_once(clock, (url, ack), known.take())?;
            match cut.gap() {
                None => return Ok(cut),
                Some(gap) if attempt + 1 == ATTEMPTS_MAX => {
                    return Err(Failure::Failed(format!(
                        "the nodes were not ready for a backup: {gap}; try again"
                    )));
                }
                // It closes as soon as all of them are asked at about the same time: nodes compare each other every few seconds. The
                // checkpoint of the first one may take minutes, so the others are not asked behind it again.
                Some(_) => {
                    known.clone_from(&cut.place);
                    drop(cut);
                }
            }
            thread::sleep(PAUSE);
        }
        unreachable!("the last attempt returns")
    }

    /// Asks all nodes at the same time if it is known which these are, or else the first one before all others; and that again with the
    /// others if it was alone for long. A node that has dropped deletions since, and is started anew, does not know that.
    fn take_once(
        clock: &dyn Clock,
        (url, ack): (&Url, Option<usize>),
        known: Option<Place>,
    ) -> Result<Cut, Failure> {
        if let Some(place) = known {
            return Cut::of_cluster(url, ack, (place, None));
        }
        let asked_ns = clock.monotonic_ns();
        let first = Checkpoint::begin(url)?;
        let Some(part) = first.part.clone() else {
            let (ack, nodes) = (ack_of(url, ack, 0)?, vec![(url.to_string(), url.clone(), first)]);
            return Ok(Cut { cluster: Vec::new(), ack, nodes, missing: Vec::new(), place: None });
        };
        if clock.monotonic_ns().saturating_sub(asked_ns) <= ALONE_NS_MAX {
            return Cut::of_cluster(url, ack, (part.place, Some(first)));
        }
        drop(first);
        thread::sleep(PAUSE);
        Cut::of_cluster(url, ack, (part.place, None))
    }

    fn of_cluster(
        url: &Url,
        ack: Option<usize>,
        (place, first): (Place, Option<Checkpoint>),
    ) -> Result<Cut, Failure> {
        let Place { nodes, own } = place.clone();
        let ack_max = nodes.len();
        let ack = ack_of(url, ack, ack_max)?;
        let (nodes_begun, missing) = (Vec::new(), Vec::new());
        let mut cut = Cut { cluster: nodes.clone(), ack, nodes: nodes_begun, missing, place: Some(place) };
        let first = first.map(|first| (own, counted(first, &nodes, own)));
        let (asked, expected) = (url.clone(), nodes.clone());
        let begin = move |place: usize, name: &str| {
            let of = if place == own { Ok(asked.clone()) } else { sibling(&asked, name) };
            of.and_then(|of| Checkpoint::begin(&of))
                .map_err(why)
                .and_then(|begun| counted(begun, &expected, place))
        };
        let begun = of_all(&nodes, first, (ack, REST_WAIT), begin, lives(url));
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
        let part =
            |(name, _, begun): &'_ (String, Url, Checkpoint)| Some((name.clone(), begun.part.clone()?));
        gap(&self.nodes.iter().filter_map(part).collect::<Vec<_>>())
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

/// Asks all of these nodes at the same time, but one, if that has answered already. Once less than `ack` are missing, the next answer is
/// waited for only so long, and for longer from those that live.
pub(super) fn of_all<T: Send + 'static>(
    names: &[String],
    first: Option<(usize, Result<T, String>)>,
    (ack, rest_wait): (usize, Duration),
    ask: impl Fn(usize, &str) -> Result<T, String> + Send + Sync + 'static,
    lives: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Vec<Result<T, String>> {
    let (answers, answered) = channel();
    let (ask, lives) = (Arc::new(ask), Arc::new(lives));
    let mut waiting: BTreeSet<usize> = (0..names.len()).collect();
    let answered_first = first.as_ref().map(|(own, _)| *own);
    waiting.retain(|place| Some(*place) != answered_first);
    for &place in &waiting {
        let (ask, answers, name) = (Arc::clone(&ask), answers.clone(), names[place].clone());
        // Who is no longer waited for may answer all the same, to nobody.
        thread::spawn(move || answers.send((place, ask(place, &name))));
    }
    drop(answers);
    let no_answer = |_| Err("it has not answered in time".to_owned());
    let mut all: Vec<Result<T, String>> = names.iter().map(no_answer).collect();
    if let Some((own, answer)) = first {
        all[own] = answer;
    }
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
fn gap(parts: &[(String, ClusterPart)]) -> Option<String> {
    for (dropper, of_dropper) in parts {
        // What a node itself has dropped deleted nothing that is left in its own checkpoint.
        let others = parts.iter().filter(|(name, _)| name != dropper);
        let mut behind = others.filter(|(_, part)| part.synced_before < of_dropper.dropped_before);
        if let Some((behind, _)) = behind.next() {
            return Some(format!("{dropper} has dropped deletions that {behind} may not have had yet"));
        }
    }
    None
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

fn sibling(url: &Url, name: &str) -> Result<Url, Failure> {
    let wrong = || Failure::Failed(format!("'{name}' is no URL of a node"));
    url.of_sibling(name).ok_or_else(wrong)
}

pub(super) fn why(failure: Failure) -> String {
    match failure {
        Failure::Usage(why) | Failure::Failed(why) => why,
        Failure::NobodyListens => "the connection broke".to_owned(),
    }
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;
