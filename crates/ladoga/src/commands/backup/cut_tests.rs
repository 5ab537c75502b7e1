use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender};

use ladoga_env::sim::SimClock;

use super::*;

/// A frozen node was waited for five minutes, in which the checkpoints of the others were released.
#[test]
fn a_node_that_does_not_answer_is_left_out_once_the_others_are_enough() {
    let names = ["own", "good", "frozen"].map(str::to_owned);
    let (thaw, frozen) = channel::<()>();
    let frozen = Mutex::new(frozen);
    let ask = move |place, name: &str| match name {
        "frozen" => frozen.lock().expect("one asks").recv().map(|()| place).map_err(|_| "late".to_owned()),
        _ => Ok(place),
    };
    let answered = of_all(&names, Some((0, Ok(0))), (2, Duration::ZERO), ask, |name| name != "frozen");
    assert_eq!(answered, [Ok(0), Ok(1), Err("it has not answered in time".to_owned())]);
    drop(thaw);
}

/// It was waited for without a pause, for ever.
#[test]
fn a_thread_that_panics_is_not_waited_for() {
    let names = ["own", "bad"].map(str::to_owned);
    for ack in [1, 2] {
        let ask = |_, _: &str| panic!("it is meant to");
        let answered = of_all(&names, Some((0, Ok(0))), (ack, Duration::from_secs(1)), ask, |_| true);
        assert_eq!(answered, [Ok(0), Err("it has not answered in time".to_owned())]);
    }
}

#[test]
fn a_node_that_is_slow_is_waited_for_if_the_others_are_too_few() {
    let names = ["own", "good", "slow"].map(str::to_owned);
    let (begins, begun) = channel::<()>();
    let begun = Mutex::new(begun);
    let begins = Mutex::new(Some(begins));
    let ask = move |place, name: &str| match name {
        "slow" => begun.lock().expect("one asks").recv().map(|()| place).map_err(|_| "late".to_owned()),
        _ => {
            let begins = begins.lock().expect("one asks").take().expect("it is asked once");
            begins.send(()).expect("the other one waits");
            Err("it is being rebuilt".to_owned())
        }
    };
    let answered = of_all(&names, Some((0, Ok(0))), (2, Duration::ZERO), ask, |_| false);
    assert_eq!(answered, [Ok(0), Err("it is being rebuilt".to_owned()), Ok(2)]);
}

/// It was left out if its checkpoint took half a minute longer than those of the others.
#[test]
fn a_node_that_is_slow_and_lives_is_waited_for_although_the_others_are_enough() {
    let names = ["own", "slow", "frozen"].map(str::to_owned);
    let (thaw, frozen) = channel::<()>();
    let (says, said) = channel();
    let (frozen, said) = (Mutex::new(frozen), Mutex::new(said));
    let ask = move |place, name: &str| {
        if name == "frozen" {
            return frozen.lock().expect("one asks").recv().map(|()| place).map_err(|_| "late".to_owned());
        }
        let said = said.lock().expect("one asks");
        (0..3).for_each(|_| said.recv().expect("it is asked whether it lives"));
        Ok(place)
    };
    let lives = move |name: &str| name == "slow" && says.send(()).is_ok();
    let answered = of_all(&names, Some((0, Ok(0))), (3, Duration::ZERO), ask, lives);
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
    let parts = said.iter().enumerate().map(part);
    gap(&names.iter().cloned().zip(parts).collect::<Vec<_>>())
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
    assert_eq!(gap_of(&[(50, 51), (60, 0)]), None, "a node went on dropping while it flushed");
    assert_eq!(gap_of(&[]), None);
}

/// A node whose checkpoints are asked for so often, of a cluster with these names. What it has synced and dropped is told for each.
fn serve(
    listener: TcpListener,
    (names, own): ([String; 2], usize),
    begin: impl Fn(usize) -> (u64, u64) + Send + Sync + 'static,
) {
    let state = Arc::new((begin, Mutex::new(0)));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, names, state) =
                (BufReader::new(socket.expect("a client")), names.clone(), Arc::clone(&state));
            thread::spawn(move || {
                let mut line = String::new();
                while socket.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    let is_begin = line.starts_with("POST");
                    while line != "\r\n" {
                        line.clear();
                        socket.read_line(&mut line).expect("a head");
                    }
                    line.clear();
                    let answer = if is_begin {
                        let number = {
                            let mut count = state.1.lock().expect("no panic");
                            *count += 1;
                            *count
                        };
                        let (synced, dropped) = (state.0)(number);
                        let json = serde_json::json!({
                            "id": "0a", "listing_bytes": 1, "taken_ms": 1, "log": null,
                            "cluster": {
                                "nodes": names, "own": own, "complete": true, "incarnation": "1",
                                "synced_before": synced.to_string(), "dropped_before": dropped.to_string(),
                            },
                        })
                        .to_string();
                        format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n{json}", json.len())
                    } else {
                        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
                    };
                    if socket.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// The others were asked behind the checkpoint of the first node: if that took long, they had dropped more by then, each time.
#[test]
fn a_node_with_a_slow_checkpoint_is_not_asked_before_the_others_again() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let names = listeners.each_ref().map(|it| format!("http://{}", it.local_addr().expect("it is bound")));
    let url = Url::parse(&names[0]).expect("a URL");
    let (asks, asked): (Sender<usize>, Receiver<usize>) = channel();
    let asked = Mutex::new(asked);
    let [slow, fast] = listeners;
    // From the second time on it is done only once the other one is asked as well; if that is not, it lacks what that has dropped.
    serve(slow, (names.clone(), 0), move |number| {
        let asked = asked.lock().expect("no panic");
        let next = || asked.recv_timeout(Duration::from_secs(2)).ok();
        let is_asked = || std::iter::from_fn(next).any(|of_other| of_other == number);
        (if number > 1 && is_asked() { 60 } else { 50 }, 0)
    });
    serve(fast, (names, 1), move |number| {
        if number > 1 {
            asks.send(number).expect("the slow one waits");
        }
        (90, 51)
    });
    let cut = Cut::take(&SimClock::new(), &url, None).unwrap_or_else(|failure| panic!("{}", why(failure)));
    assert_eq!((cut.nodes.len(), cut.missing.len()), (2, 0));
}

/// It was put together with checkpoints of minutes later, at first.
#[test]
fn a_checkpoint_that_took_long_by_itself_is_made_again_with_the_others() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let names = listeners.each_ref().map(|it| format!("http://{}", it.local_addr().expect("it is bound")));
    let url = Url::parse(&names[0]).expect("a URL");
    let [first, other] = listeners;
    let clock = SimClock::new();
    let of_first = clock.clone();
    serve(first, (names.clone(), 0), move |number| {
        of_first.advance(Duration::from_nanos(ALONE_NS_MAX + 1));
        (if number > 1 { 60 } else { 50 }, 0)
    });
    let (asks, asked) = channel();
    serve(other, (names, 1), move |number| {
        asks.send(number).expect("it is looked at");
        (90, 51)
    });
    let cut = Cut::take(&clock, &url, None).unwrap_or_else(|failure| panic!("{}", why(failure)));
    assert_eq!((cut.nodes.len(), asked.try_iter().collect::<Vec<_>>()), (2, vec![1]));
}
