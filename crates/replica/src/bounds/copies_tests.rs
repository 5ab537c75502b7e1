use std::cell::Cell;
use std::task::{Context, Poll, Waker};

use super::*;

/// A reader that waits until the test tells it to stop.
#[derive(Default)]
struct Client {
    awaits: Cell<bool>,
    heard: RefCell<Vec<(usize, Result<WriteAnswer, NotCopied>)>>,
}

impl Client {
    fn new(awaits: bool) -> Rc<Client> {
        Rc::new(Client { awaits: Cell::new(awaits), heard: RefCell::default() })
    }
}

/// Of what is copied.
const VERSION: Version = Version { timestamp: 7, node: 1 };

impl CopyReader for Client {
    fn awaits(&self) -> bool {
        self.awaits.get()
    }

    fn copied(self: Rc<Self>, place: usize, version: Version, outcome: Result<WriteAnswer, NotCopied>) {
        assert_eq!(version, VERSION, "of what was copied, not of what is newest");
        self.heard.borrow_mut().push((place, outcome));
    }
}

#[derive(Default)]
struct Node {
    copies: Rc<Copies>,
    turns: Arc<CopyTurns>,
    pace: Pace,
}

impl Node {
    fn wish(&self, key: &'static str, client: &Rc<Client>, place: usize) -> CopyRequest {
        let name = CopyName { key: Bytes::from_static(key.as_bytes()), version: VERSION, to: NodeId(1) };
        let reader: Rc<dyn CopyReader> = Rc::<Client>::clone(client);
        self.copies.wish(&self.turns, name, &reader, place)
    }

    fn copy(&self, key: &'static str, client: &Rc<Client>) -> Copying {
        match self.wish(key, client, 1) {
            CopyRequest::New(copying) => copying,
            CopyRequest::Joined | CopyRequest::UnderWay => panic!("{key} is not under way"),
        }
    }

    fn waiting(&self) -> usize {
        self.turns.figures()[1]
    }
}

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const REFUSED: Result<WriteAnswer, NotCopied> = Err(NotCopied::NoTurn);
const MADE: Result<WriteAnswer, NotCopied> = Ok(WriteAnswer::Applied);

fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn within_a_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(test);
}

#[test]
fn copies_that_nobody_waits_for_have_so_many_turns() {
    within_a_runtime(async {
        let (node, nobody) = (Node::default(), Client::new(false));
        let mut copies: Vec<Copying> = KEYS.iter().map(|key| node.copy(key, &nobody)).collect();
        let mut late = copies.split_off(LARGE_COPIES_MAX);
        for copy in &mut copies {
            assert_eq!(now(copy.begin()), Poll::Ready(Ok(())));
            assert!(matches!(now(copy.piece(&node.pace, 0)), Poll::Ready(Ok(()))));
        }
        let mut begin = pin!(late[0].begin());
        assert_eq!(now(begin.as_mut()), Poll::Pending);
        assert_eq!(node.turns.figures(), [LARGE_COPIES_MAX, 1, 0]);
        copies.pop().expect("a copy").ends(MADE);
        assert_eq!(begin.await, Ok(()));
        assert_eq!(node.turns.figures(), [LARGE_COPIES_MAX, 0, 0]);
    });
}

#[test]
fn only_so_many_wait_for_a_turn() {
    within_a_runtime(async {
        let (node, nobody) = (Node::default(), Client::new(false));
        let turns = Arc::clone(&node.turns.free);
        let _all = turns.try_acquire_many(LARGE_COPIES_MAX as u32).expect("all turns are free");
        node.turns.waiting.store(LARGE_COPIES_WAITING_MAX - 1, Ordering::Relaxed);
        let (mut last, mut refused) = (node.copy("a", &nobody), node.copy("b", &nobody));
        let mut waits = pin!(last.begin());
        assert_eq!(now(waits.as_mut()), Poll::Pending);
        assert_eq!(now(refused.begin()), Poll::Ready(Err(NotCopied::NoTurn)));
        assert_eq!((node.waiting(), node.turns.figures()[2]), (LARGE_COPIES_WAITING_MAX, 1));
    });
}

#[test]
fn a_copy_that_a_client_waits_for_needs_no_turn_and_is_not_paced_until_it_does_not() {
    within_a_runtime(async {
        let (node, client) = (Node::default(), Client::new(true));
        let turns = Arc::clone(&node.turns.free);
        let all = turns.try_acquire_many(LARGE_COPIES_MAX as u32).expect("all turns are free");
        let mut copy = node.copy("a", &client);
        assert_eq!(now(copy.begin()), Poll::Ready(Ok(())));
        // More than is paid for in a second, each.
        for _ in 0..10 {
            assert_eq!(now(copy.piece(&node.pace, 1 << 30)), Poll::Ready(Ok(())));
        }
        client.awaits.set(false);
        assert_eq!(
            now(copy.piece(&node.pace, 1)),
            Poll::Ready(Err(NotCopied::NoTurn)),
            "all turns are taken"
        );
        drop(all);
        assert_eq!(now(copy.piece(&node.pace, 1 << 30)), Poll::Ready(Ok(())), "it has one now");
        assert_eq!(now(copy.piece(&node.pace, 1)), Poll::Pending, "the piece before is not paid for");
        copy.ends(REFUSED);
        assert_eq!(*client.heard.borrow(), [(1, REFUSED)]);
    });
}

#[test]
fn the_same_copy_is_made_once_and_a_client_that_joins_it_hurries_it() {
    within_a_runtime(async {
        let (node, nobody) = (Node::default(), Client::new(false));
        let turns = Arc::clone(&node.turns.free);
        let _all = turns.try_acquire_many(LARGE_COPIES_MAX as u32).expect("all turns are free");
        let mut copy = node.copy("a", &nobody);
        let mut begin = Box::pin(copy.begin());
        assert_eq!(now(begin.as_mut()), Poll::Pending);
        assert!(matches!(node.wish("a", &nobody, 1), CopyRequest::UnderWay));
        let (client, gone) = (Client::new(true), Client::new(true));
        assert!(matches!(node.wish("a", &gone, 2), CopyRequest::Joined));
        drop(gone);
        assert!(matches!(node.wish("a", &client, 2), CopyRequest::Joined));
        assert_eq!(begin.await, Ok(()));
        assert_eq!(now(copy.piece(&node.pace, 1 << 30)), Poll::Ready(Ok(())));
        copy.ends(MADE);
        assert_eq!(*client.heard.borrow(), [(2, MADE)]);
        assert_eq!(*nobody.heard.borrow(), [(1, MADE)]);
        // Then another may be made.
        node.copy("a", &nobody).ends(MADE);
    });
}

/// It was told nothing, and the delivery of a hint waited for that for ever. (Seed 951 of the simulation with conditional writes.)
#[test]
fn a_reader_that_makes_room_for_another_is_told() {
    within_a_runtime(async {
        let node = Node::default();
        let [first, second, third] = [(); 3].map(|()| Client::new(true));
        let copy = node.copy("a", &first);
        assert!(matches!(node.wish("a", &second, 2), CopyRequest::Joined));
        second.awaits.set(false);
        assert!(matches!(node.wish("a", &third, 3), CopyRequest::Joined));
        assert_eq!(*second.heard.borrow(), [(2, REFUSED)]);
        copy.ends(MADE);
        assert_eq!(*second.heard.borrow(), [(2, REFUSED)]);
        assert_eq!([first.heard.take(), third.heard.take()], [vec![(1, MADE)], vec![(3, MADE)]]);
    });
}

#[test]
fn anti_entropy_takes_over_four_large_values_at_a_time_and_of_others_so_many_bytes() {
    let turns = CopyTurns::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut begins = |value: Option<&Value<Bytes, u64>>| match pin!(turns.pull(value)).poll(&mut context) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    };
    let inline = |bytes: u32| Some(Value::Inline(Bytes::from(vec![0; bytes as usize])));
    let large = Some(Value::Large(1 << 40));
    let mut under_way = vec![begins(inline(PULLED_BYTES_MAX - 100).as_ref()).expect("the first one")];
    under_way.push(begins(inline(100).as_ref()).expect("there is room for it"));
    assert!(begins(inline(1).as_ref()).is_none());
    under_way.push(begins(None).expect("a deletion has no bytes"));
    under_way.extend((0..LARGE_PULLS_MAX).map(|_| begins(large.as_ref()).expect("it has its own turns")));
    assert!(begins(large.as_ref()).is_none());
    under_way.clear();
    assert!(begins(inline(PULLED_BYTES_MAX + 1).as_ref()).is_some(), "alone");
}
