//! Plain writes, deletions and writes with a condition on the same keys, through all nodes, while these are killed, frozen and cut
//! off: what clients were told of each key could have happened one operation after the other.
//!
//! Every second or so, clients go on to another key, and after a few operations with an unknown outcome: a history with hundreds of
//! operations is checked at once, and one that has dozens with an unknown outcome is not.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ladoga_history::{Input, Operation, Output, Verdict, check};

use crate::adding::{OverWhenDropped, addresses};
use crate::cluster::{Cluster, target};
use crate::conditional::try_ask;
use crate::contended::{disturb, duration, in_networks};
use crate::support::{Random, Response, in_a_network_of_its_own};

const CLIENTS: u64 = 6;
/// How long a key is in use.
const KEY_MS: u128 = 1_200;
/// After how many unknown outcomes another key is in use: on a machine that is busy with something else, each request may time out.
const KEY_UNKNOWN_MAX: u64 = 12;
/// How long a client waits at most before it asks again.
const PAUSE_MS: u64 = 12;

/// What clients were told of all keys.
#[derive(Default)]
struct Told {
    /// Counts what began or ended: no two things do at one moment.
    moments: AtomicU64,
    /// Counts the values, of which no two are the same.
    values: AtomicU64,
    key: Mutex<KeyInUse>,
    /// By key.
    operations: Mutex<HashMap<String, Vec<Recorded>>>,
    /// What there is under each version, by its `ETag`; none for a deletion.
    versions: Mutex<HashMap<String, Option<u64>>>,
}

/// The key that clients ask for.
struct KeyInUse {
    number: u64,
    since: Instant,
    unknown: u64,
}

impl Default for KeyInUse {
    fn default() -> KeyInUse {
        KeyInUse { number: 0, since: Instant::now(), unknown: 0 }
    }
}

/// An operation, and the version because of which it was refused, if it was.
struct Recorded {
    operation: Operation,
    refused_by: Option<String>,
}

/// What a client saw of a key last: its version, and what it holds.
type Seen = Option<(String, u64)>;

/// What became of a request.
enum Outcome {
    Told(Output),
    /// The condition is not met; because of this version, if there is one.
    Refused(Option<String>),
    Unknown,
    /// Surely nothing happened, and nothing was learned.
    Nothing,
}

fn etag(response: &Response) -> Option<String> {
    response.header("etag").map(str::to_owned)
}

/// Whether an error says that the request may have happened. One of a conditional write that does not say so says that it did not.
fn may_have_happened(response: &Response) -> bool {
    response.text().contains("may have happened")
}

impl Told {
    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// The key to ask for now.
    fn key(&self) -> String {
        let mut key = self.key.lock().expect("no panic");
        if key.since.elapsed().as_millis() >= KEY_MS || key.unknown >= KEY_UNKNOWN_MAX {
            *key = KeyInUse { number: key.number + 1, ..KeyInUse::default() };
        }
        format!("register{}", key.number)
    }

    fn note_version(&self, response: &Response, holds: Option<u64>) {
        if let Some(etag) = etag(response) {
            let before = self.versions.lock().expect("no panic").insert(etag, holds);
            assert!(before.is_none_or(|before| before == holds), "{response:?} and {before:?} before");
        }
    }

    /// Asks once, and records what came of it.
    fn ask(&self, address: SocketAddr, key: &str, input: Input, seen: Option<&(String, u64)>) -> Seen {
        let target = target(key, "2/3");
        let condition = match (input, seen) {
            (Input::CompareAndSet { .. }, Some((etag, _))) => format!("If-Match: {etag}\r\n"),
            (Input::CompareAndSet { .. }, None) => "If-None-Match: *\r\n".to_owned(),
            _ => String::new(),
        };
        let value = match input {
            Input::Write(value) | Input::CompareAndSet { value: Some(value), .. } => Some(value),
            _ => None,
        };
        let method = match input {
            Input::Read => "GET",
            Input::Delete => "DELETE",
            _ => "PUT",
        };
        let body = value.map(|value| value.to_string());
        let invoked = self.moment();
        let answer = try_ask(address, (method, &target, &condition), body.as_ref().map(String::as_bytes));
        let (outcome, now_seen) = self.outcome(input, answer.as_ref());
        let ended = self.moment();
        let (answer, refused_by) = match outcome {
            Outcome::Nothing => return now_seen,
            Outcome::Told(output) => (Some((ended, output)), None),
            Outcome::Refused(by) => (Some((ended, Output::Refused)), by),
            Outcome::Unknown => {
                self.key.lock().expect("no panic").unknown += 1;
                (None, None)
            }
        };
        let recorded = Recorded { operation: Operation { invoked, input, answer }, refused_by };
        let mut operations = self.operations.lock().expect("no panic");
        operations.entry(key.to_owned()).or_default().push(recorded);
        now_seen
    }

    /// What an answer says, and what its client goes by from now on.
    fn outcome(&self, input: Input, answer: Option<&Response>) -> (Outcome, Seen) {
        let Some(answer) = answer else { return (Outcome::Unknown, None) };
        match (input, answer.status) {
            (Input::Read, 200) => {
                let value = answer.text().parse().expect("a number");
                self.note_version(answer, Some(value));
                (Outcome::Told(Output::Value(Some(value))), etag(answer).map(|etag| (etag, value)))
            }
            (Input::Read, 404) => {
                self.note_version(answer, None);
                (Outcome::Told(Output::Value(None)), None)
            }
            (Input::Write(value) | Input::CompareAndSet { value: Some(value), .. }, 201) => {
                self.note_version(answer, Some(value));
                (Outcome::Told(Output::Done), etag(answer).map(|etag| (etag, value)))
            }
            (Input::Delete, 202) => {
                self.note_version(answer, None);
                (Outcome::Told(Output::Done), None)
            }
            (Input::CompareAndSet { .. }, 412) => (Outcome::Refused(etag(answer)), None),
            (Input::Read, 503 | 504) => (Outcome::Nothing, None),
            (Input::CompareAndSet { .. }, 503 | 504) if !may_have_happened(answer) => {
                (Outcome::Nothing, None)
            }
            // (A plain write that failed counts as one that may have happened, whatever the error says.)
            (_, 503 | 504) => (Outcome::Unknown, None),
            _ => panic!("{input:?} was answered {answer:?}"),
        }
    }

    /// Asks for one key after another until it is over.
    fn ask_until(&self, addresses: &[SocketAddr], client: u64, is_over: &AtomicBool) {
        let mut random = Random::new(client);
        let (mut seen, mut last_key) = (None, String::new());
        while !is_over.load(Ordering::Relaxed) {
            let key = self.key();
            if key != last_key {
                (seen, last_key) = (None, key.clone());
            }
            let value = self.values.fetch_add(1, Ordering::Relaxed) + 1;
            let input = match random.below(8) {
                0..=2 => Input::Read,
                3 | 4 => Input::Write(value),
                5 if random.below(4) == 0 => Input::Delete,
                _ => {
                    let expected = seen.as_ref().map(|(_, value)| *value);
                    Input::CompareAndSet { expected, value: Some(value) }
                }
            };
            seen = self.ask(addresses[client as usize % addresses.len()], &key, input, seen.as_ref());
            thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
        }
    }

    /// A refusal tells something if what was in the way is not what was expected. (Who takes over for a coordinator that is gone writes
    /// the same value again, under another version.)
    fn is_of_use(&self, recorded: &Recorded) -> bool {
        let Input::CompareAndSet { expected: Some(expected), .. } = recorded.operation.input else {
            return true;
        };
        let Some(by) = &recorded.refused_by else { return true };
        match self.versions.lock().expect("no panic").get(by) {
            None => false,
            Some(holds) => *holds != Some(expected),
        }
    }

    fn check(&self, cluster: &Cluster) {
        let keys: Vec<String> = self.operations.lock().expect("no panic").keys().cloned().collect();
        for key in &keys {
            // What there is in the end fits as well.
            self.ask(cluster.nodes[0].address(), key, Input::Read, None);
        }
        let mut done = [0; 3];
        let operations = self.operations.lock().expect("no panic");
        for (key, recorded) in &*operations {
            let of_use = recorded.iter().filter(|recorded| self.is_of_use(recorded));
            let history: Vec<Operation> = of_use.map(|recorded| recorded.operation).collect();
            let count = |is_it: fn(&Operation) -> bool| history.iter().filter(|it| is_it(it)).count();
            let of_key = [
                count(|it| {
                    matches!((it.input, it.answer), (Input::CompareAndSet { .. }, Some((_, Output::Done))))
                }),
                count(|it| matches!((it.input, it.answer), (Input::Write(_), Some(_)))),
                count(|it| it.answer.is_none()),
            ];
            eprintln!(
                "{key}: {} operations, {} of them compared and set, {} plain, {} unknown",
                history.len(),
                of_key[0],
                of_key[1],
                of_key[2]
            );
            match check(&history) {
                Verdict::Linearizable => {}
                Verdict::Violation(violation) => panic!("{key}: {violation}"),
                Verdict::Undecided => panic!("{key}: {} operations are too many to check", history.len()),
            }
            done.iter_mut().zip(of_key).for_each(|(done, of_key)| *done += of_key);
        }
        let [compared, plain, _] = done;
        // However many keys there were, as each change of key is for many that told nothing.
        let enough = 3 * (duration().as_millis() / KEY_MS) as usize;
        assert!(compared > enough && plain > enough, "{compared} compared, {plain} plain");
    }
}

#[test]
fn plain_and_conditional_writes_of_one_key_are_linearizable_while_nodes_are_killed_frozen_and_cut_off() {
    let name = "register::plain_and_conditional_writes_of_one_key_are_linearizable_while_nodes_are_killed_frozen_and_cut_off";
    in_a_network_of_its_own(name, || {
        let (network, mut cluster) = in_networks(3);
        let (addresses, told, is_over) = (addresses(&cluster), Told::default(), AtomicBool::new(false));
        let began = Instant::now();
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (addresses, told, is_over) = (&addresses, &told, &is_over);
                scope.spawn(move || told.ask_until(addresses, client, is_over));
            }
            let _over = OverWhenDropped(&is_over);
            disturb(&mut cluster, &network, began + duration(), 2);
        });
        cluster.wait_until_all_answer();
        told.check(&cluster);
    });
}
