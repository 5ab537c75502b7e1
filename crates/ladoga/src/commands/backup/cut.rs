use std::thread;
use std::time::Duration;

use ladoga_backup::Missing;

use super::super::Failure;
use super::checkpoint::{Checkpoint, ClusterPart};
use crate::client::Url;

/// How often checkpoints of a cluster are made anew if they do not fit together.
const ATTEMPTS_MAX: usize = 10;
/// The pause before that.
const PAUSE: Duration = Duration::from_secs(1);

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
            if ack.is_some_and(|ack| ack > 1) {
                return Err(Failure::Usage(format!(
                    "--ack is {}, expected 1: {url} is a node on its own",
                    ack.unwrap_or(1)
                )));
            }
            let nodes = vec![(url.to_string(), url.clone(), first)];
            return Ok(Cut { cluster: Vec::new(), ack: 1, nodes, missing: Vec::new() });
        };
        let ack_max = part.nodes.len();
        let ack = ack.unwrap_or(ack_max / 2 + 1);
        if ack > ack_max {
            return Err(Failure::Usage(format!(
                "--ack is {ack}, expected 1 to {ack_max}, the nodes of the cluster"
            )));
        }
        let mut cut = Cut { cluster: part.nodes.clone(), ack, nodes: Vec::new(), missing: Vec::new() };
        let mut first = Some(first);
        let begun: Vec<Result<Checkpoint, Failure>> = thread::scope(|scope| {
            let asked: Vec<_> = part
                .nodes
                .iter()
                .enumerate()
                .map(|(place, name)| {
                    let begun = if place == part.own { first.take() } else { None };
                    scope.spawn(move || begun.map_or_else(|| begin_other(url, name), Ok))
                })
                .collect();
            let panicked = || Failure::Failed("asking it panicked".to_owned());
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        for (place, (name, begun)) in part.nodes.iter().zip(begun).enumerate() {
            match begun.map_err(why).and_then(|begun| counted(begun, &part.nodes, place)) {
                Ok(begun) => {
                    let reached = if place == part.own { Some(url.clone()) } else { url.of_sibling(name) };
                    cut.nodes.push((name.clone(), reached.unwrap_or_else(|| url.clone()), begun));
                }
                Err(why) => cut.missing.push(Missing { url: name.clone(), why }),
            }
        }
        if cut.missing.len() >= ack {
            let missing: Vec<String> =
                cut.missing.iter().map(|Missing { url, why }| format!("{url}: {why}")).collect();
            let (count, all) = (cut.missing.len(), ack_max);
            return Err(Failure::Failed(format!(
                "{count} of {all} nodes are missing, so writes that {ack} nodes acknowledged may be, too: {}",
                missing.join("; ")
            )));
        }
        Ok(cut)
    }

    /// What makes the checkpoints not fit together, if anything does.
    fn gap(&self) -> Option<String> {
        gap(self.nodes.iter().filter_map(|(name, _, begun)| Some((name.as_str(), begun.part.as_ref()?))))
    }
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
        Some(part) if part.nodes != nodes || part.own != place => {
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

fn why(failure: Failure) -> String {
    match failure {
        Failure::Usage(why) | Failure::Failed(why) => why,
        Failure::NobodyListens => "the connection broke".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nodes say: before when each has everything, and before when it may have dropped deletions.
    fn gap_of(said: &[(u64, u64)]) -> Option<String> {
        let names: Vec<String> = (0..said.len()).map(|own| format!("http://n{own}")).collect();
        let part = |(own, &(synced_before, dropped_before)): (usize, &(u64, u64))| ClusterPart {
            nodes: names.clone(),
            own,
            is_whole: true,
            synced_before,
            dropped_before,
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
