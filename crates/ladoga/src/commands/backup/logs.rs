use std::thread;
use std::time::Duration;

use ladoga_backup::{Chain, Error, Missing, Repository, Shipped, Writing, text_of_ms};

use super::super::{Failure, complain};
use super::checkpoint::Place;
use super::cut::{REST_WAIT, ack_of, lives, of_all, why};
use super::node_log::{self, NodeLog, Told};
use super::paced::Pace;
use crate::client::Url;

/// Nodes tell each other their clocks twice a second: those that are behind another one are asked again so often.
const LEVEL_PAUSES: usize = 20;
const LEVEL_PAUSE: Duration = Duration::from_millis(250);

/// The logs of the nodes of a cluster, or that of a node on its own.
pub(super) struct Logs<'c> {
    all: usize,
    ack: usize,
    nodes: Vec<(String, NodeLog<'c>)>,
    missing: Vec<Missing>,
    reaches_ms_max: u64,
}

/// What came of fetching them.
pub(super) struct Fetched {
    pub(super) all: usize,
    pub(super) ack: usize,
    pub(super) chains: Vec<Chain>,
    /// Nodes whose log does not go as far.
    pub(super) missing: Vec<Missing>,
    /// How many others have a gap in their logs that was not known before.
    pub(super) broken: usize,
    pub(super) segments: u64,
    pub(super) bytes: u64,
    /// Up to when everything is there.
    pub(super) reaches_ms: u64,
}

impl<'c> Logs<'c> {
    /// Asks this node, and by what it says all others of its cluster at the same time.
    pub(super) fn find(url: &Url, ack: Option<usize>, pace: Pace<'c>) -> Result<Logs<'c>, Failure> {
        let told = node_log::begin(url)?;
        let log = |url: &Url| NodeLog::new(url, pace);
        let Some(Place { nodes, own }) = told.place.clone() else {
            let (ack, nodes) = (ack_of(url, ack, 0)?, vec![(url.to_string(), log(url))]);
            return Ok(Logs { all: 1, ack, nodes, missing: Vec::new(), reaches_ms_max: u64::MAX });
        };
        let all = nodes.len();
        let ack = ack_of(url, ack, all)?;
        let (asked, expected) = (url.clone(), nodes.clone());
        let begin = move |own: usize, name: &str| {
            let of = asked.of_sibling(name).ok_or_else(|| format!("'{name}' is no URL of a node"))?;
            let told = node_log::begin(&of).map_err(|error| why(error.into()))?;
            let is_expected = told.place == Some(Place { nodes: expected.clone(), own });
            let other = || "it is of another cluster, or knows other nodes".to_owned();
            if is_expected { Ok((of, told)) } else { Err(other()) }
        };
        let begun = of_all(&nodes, Some((own, Ok((url.clone(), told)))), (ack, REST_WAIT), begin, lives(url));
        let mut logs = Logs { all, ack, nodes: Vec::new(), missing: Vec::new(), reaches_ms_max: u64::MAX };
        let mut reaches = Vec::new();
        for (name, begun) in nodes.iter().zip(begun) {
            match begun {
                Ok((of, Told { listing, .. })) => {
                    logs.nodes.push((name.clone(), log(&of)));
                    reaches.push((of, listing.reaches_ms));
                }
                Err(why) => logs.miss(name, why),
            }
        }
        // Noted before the first of them is asked for what it has: whatever was acknowledged by then, by the clock of the node
        // that was asked for it, is in the logs that come after this.
        logs.reaches_ms_max = level(reaches);
        Ok(logs)
    }

    fn miss(&mut self, url: &str, why: String) {
        self.missing.push(Missing { url: url.to_owned(), why });
    }

    /// Fetches them, one after the other.
    pub(super) fn fetch(mut self, repository: &Repository, writing: &Writing) -> Result<Fetched, Failure> {
        let (mut chains, mut broken, mut segments, mut bytes) = (Vec::new(), 0, 0, 0);
        for (name, mut log) in std::mem::take(&mut self.nodes) {
            let (shipped, done) = repository.ship(writing, (&name, self.reaches_ms_max), &mut log);
            tell_gaps(&shipped);
            // What came counts also if what follows did not.
            (segments, bytes) = (segments + shipped.segments, bytes + shipped.bytes);
            match done {
                Ok(()) => {
                    if shipped.is_whole {
                        broken += usize::from(!shipped.gaps.is_empty());
                    } else {
                        self.miss(
                            &name,
                            "it lacks some of what it acknowledged, and is being rebuilt".to_owned(),
                        );
                    }
                    chains.extend(shipped.chain);
                }
                // It was there a moment ago.
                Err(Error::Source(why) | Error::Absent(why)) if self.all > 1 => self.miss(&name, why),
                Err(error) => return Err(error.into()),
            }
        }
        let Logs { all, ack, missing, .. } = self;
        // A node on its own says it itself.
        let reaches_ms = chains.iter().map(|chain: &Chain| chain.reaches_ms).max().unwrap_or(0);
        let reaches_ms = self.reaches_ms_max.min(reaches_ms);
        Ok(Fetched { all, ack, chains, missing, broken, segments, bytes, reaches_ms })
    }
}

/// Up to when all of these nodes have everything. What a node acknowledges once it was started again counts as of up to ten seconds later:
/// the others are waited for until they have come as far as the one that is furthest ahead, so that there is a time that has all.
fn level(mut nodes: Vec<(Url, u64)>) -> u64 {
    let Some(ahead) = nodes.iter().map(|(_, reaches_ms)| *reaches_ms).max() else { return u64::MAX };
    for _ in 0..LEVEL_PAUSES {
        let behind: Vec<_> = nodes.iter_mut().filter(|(_, reaches_ms)| *reaches_ms < ahead).collect();
        if behind.is_empty() {
            break;
        }
        thread::sleep(LEVEL_PAUSE);
        for (url, reaches_ms) in behind {
            // That it is gone, who fetches its log will see.
            if let Ok(told) = node_log::begin(url) {
                *reaches_ms = told.listing.reaches_ms;
            }
        }
    }
    for (url, reaches_ms) in &nodes {
        if *reaches_ms < ahead {
            let (up_to, later) = (text_of_ms(*reaches_ms), text_of_ms(ahead));
            complain(format_args!(
                "{url} is at {up_to} and another node at {later}: what was acknowledged in between is fetched, and cannot be restored before a later `ladoga backup log`"
            ));
        }
    }
    nodes.iter().map(|(_, reaches_ms)| *reaches_ms).min().unwrap_or(u64::MAX)
}

/// Says which times cannot be restored.
pub(super) fn tell_gaps(shipped: &Shipped) {
    for gap in &shipped.gaps {
        complain(format_args!("{gap}; times from there to the next backup cannot be restored"));
    }
}
