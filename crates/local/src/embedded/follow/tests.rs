//! Who follows a feed, and until when: several event loops, tokens, power cuts, waiting.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::sim::{self, PowerCut};
use ladoga_model::HybridClock;
use ladoga_service::{Error, KeyValue, Lookup, Since};
use ladoga_storage::{Durability, KeptDeletions, Options};

use super::super::Embedded;
use super::model_tests::{Client, KEPT_MS, World, context, on_a_loop, versions};
use super::told::State;
use crate::OneNode;
use crate::store::Store;

/// Two event loops that write the same keys at the same time, and somebody on each who follows.
#[test]
fn writes_of_many_loops_are_told_in_one_order() {
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, _clock) = sim::env(7);
        let store = Embedded::open(env.clone(), Path::new("/data"), Options::new(16 << 20, durability));
        let store = Arc::new(store.expect("a store that opens"));
        let versions = versions(&store, &env);
        let write = |writer: u64| {
            on_a_loop(&store, async |local| {
                let service = OneNode::new(Arc::clone(&store), Rc::new(local), Arc::clone(&versions));
                let mut client = Client::new("", None);
                client.connect(&service).await.expect("it begins");
                for n in 0..300 {
                    let put = |key: u64| {
                        let value = Bytes::from(format!("{writer}-{n}"));
                        service.put(&context(), format!("k{:02}", (key + n) % 17).into_bytes(), value, ())
                    };
                    let writes = [0, 3, 5].map(|key| tokio::task::spawn_local(put(key)));
                    for written in writes {
                        written.await.expect("a write").expect("room");
                    }
                    if n % 4 == writer {
                        client.read().await;
                    }
                }
                client
            })
        };
        // A follower belongs to its loop; what it was told does not.
        let told = |writer| {
            let Client { state, since, .. } = write(writer);
            (state, since)
        };
        let states: Vec<(State, Since)> = std::thread::scope(|scope| {
            let told = &told;
            let writers = [0, 1].map(|writer| scope.spawn(move || told(writer)));
            writers.map(|writer| writer.join().expect("a writer")).into()
        });
        on_a_loop(&store, async |local| {
            let service = OneNode::new(Arc::clone(&store), Rc::new(local), Arc::clone(&versions));
            for (state, since) in states {
                let mut client = Client { since, state, ..Client::new("", None) };
                client.connect(&service).await.expect("it goes on");
                client.read_all().await;
                for n in 0..17 {
                    let key = format!("k{n:02}");
                    let Lookup::Now(Ok(Some(cell))) = service.get(&context(), key.as_bytes()) else {
                        panic!("{key} is lost")
                    };
                    assert_eq!(client.state[&key].timestamp, cell.stamp.version.timestamp, "{key}");
                }
            }
        });
        store.close().expect("a store that closes");
    }
}

#[test]
fn a_token_is_good_until_deletions_behind_it_may_be_gone_and_for_its_own_feed() {
    let world = World::new(1, Durability::Always);
    let store = world.open();
    let since = on_a_loop(&store, async |local| {
        let versions = versions(&store, &world.env);
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions);
        let mut client = Client::new("", None);
        client.since = Since::Now;
        client.connect(&service).await.expect("it begins");
        assert!(client.read().await && client.state.is_empty());
        client.since
    });
    store.close().expect("a store that closes");

    let ask = |world: &World, since: Since| {
        let store = world.open();
        let answered = on_a_loop(&store, async |local| {
            let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
            let mut client = Client { since, ..Client::new("", None) };
            client.connect(&service).await
        });
        store.close().expect("a store that closes");
        answered
    };
    let is_gone = |answered: &Result<(), Error>, why: &str| match answered {
        Err(Error::ChangesGone { reason, oldest }) => reason.contains(why) && !oldest.is_empty(),
        _ => false,
    };
    for wrong in ["", "x", "00", "0102"] {
        let answered = ask(&world, Since::Token(Bytes::from(wrong)));
        assert!(matches!(answered, Err(Error::NoToken { .. })), "{wrong}: {answered:?}");
    }
    world.clock.advance(Duration::from_millis(KEPT_MS - 60_000));
    assert!(ask(&world, since.clone()).is_ok());
    world.clock.advance(Duration::from_mins(2));
    let answered = ask(&world, since.clone());
    assert!(is_gone(&answered, "too old"), "{answered:?}");
    let Err(Error::ChangesGone { oldest, .. }) = answered else { unreachable!("it was seen") };
    assert!(ask(&world, Since::Token(Bytes::from(oldest.into_string()))).is_ok());
    assert!(ask(&world, Since::Beginning).is_ok(), "it needs no deletions");
    let other = World::new(2, Durability::Always);
    let Since::Token(token) = since else { panic!("it was given one") };
    assert!(is_gone(&ask(&other, Since::Token(token)), "another data directory"));
}

#[test]
fn an_engine_keeps_deletions_from_its_start_on_if_it_was_followed() {
    let world = World::new(1, Durability::Always);
    let kept = || {
        let options = Options::new(16 << 20, Durability::Always);
        Embedded::options_to_follow(&world.env, Path::new("/data"), options, KEPT_MS).kept_deletions
    };
    assert_eq!(kept(), KeptDeletions::default(), "there is no store yet");
    let store = world.open();
    assert_eq!(kept(), KeptDeletions::default(), "nobody has followed");
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        Client::new("", None).connect(&service).await.expect("it begins");
    });
    let until_ms = HybridClock::wall_ms(store.feed.reserved()) + KEPT_MS;
    assert_eq!(kept(), KeptDeletions { age_ms: KEPT_MS, until_ms });
    assert!(until_ms > world.now_ms() + KEPT_MS);
    store.close().expect("a store that closes");
}

/// A compaction goes by the clock that it sees.
#[test]
fn a_token_is_refused_if_a_clock_that_was_ahead_has_dropped_deletions_behind_it() {
    let mut world = World::new(1, Durability::Always);
    let mut client = Client::new("", None);
    let store = world.open();
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        world.put(&service, "k01", None).await;
        client.connect(&service).await.expect("it begins");
        client.read_all().await;
        service.delete(&context(), b"k01".to_vec()).await.expect("room");
        world.clock.advance(Duration::from_secs(1));
        store.engine.seal().expect("room");
        let work = || while store.engine.step().expect("a sound disk") {};
        work();
        client.connect(&service).await.expect("the deletion is still there");
        world.clock.jump_wall_ms(25 * 3_600_000);
        work();
        world.clock.jump_wall_ms(-25 * 3_600_000);
        let answered = client.connect(&service).await;
        let Err(Error::ChangesGone { oldest, .. }) = answered else {
            panic!("the deletion is gone, and nobody is told: {answered:?}")
        };
        // What comes after the answer is told to who goes on with its token.
        world.put(&service, "k02", None).await;
        let mut again = Client::new("", None);
        again.since = Since::Token(Bytes::from(oldest.into_string()));
        again.connect(&service).await.expect("it is good");
        again.read_all().await;
        assert!(again.told.contains_key("k02"));
    });
    store.close().expect("a store that closes");
    drop(store);
    let store = world.open();
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        let answered = client.connect(&service).await;
        assert!(matches!(answered, Err(Error::ChangesGone { .. })), "{answered:?}");
    });
    store.close().expect("a store that closes");
}

/// The wall clock of a machine that lost its power may be behind.
#[test]
fn what_is_written_after_a_power_cut_comes_after_every_token_whatever_the_clock_shows() {
    let mut world = World::new(3, Durability::Never);
    let store = world.open();
    let mut client = Client::new("", None);
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        client.connect(&service).await.expect("it begins");
        for n in 0..20 {
            world.put(&service, &format!("k{n:02}"), None).await;
        }
        client.read_all().await;
        client.follower = None;
    });
    world.disk.power_cut(PowerCut::LoseAll);
    drop(store);
    world.disk.power_on();
    world.clock.jump_wall_ms(-3_000);
    let before = client.state.values().map(|known| known.timestamp).max().expect("it was told of some");
    let store = world.open();
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        world.put(&service, "new", None).await;
        assert!(world.model["new"].timestamp > before);
        client.connect(&service).await.expect("it goes on");
        client.read_all().await;
        assert!(client.told.contains_key("new"));
    });
    store.close().expect("a store that closes");
}

#[test]
fn who_waits_is_woken_for_its_own_keys_alone_and_the_end_moves_on_with_the_time() {
    let mut world = World::new(4, Durability::Never);
    let store = world.open();
    on_a_loop(&store, async |local| {
        let service = OneNode::new(Arc::clone(&store), Rc::new(local), versions(&store, &world.env));
        let mut client = Client::new("k10", Some("k20"));
        client.connect(&service).await.expect("it begins");
        client.read_all().await;
        let waits = async |client: &mut Client, ms| {
            let follower = client.follower.as_mut().expect("it is connected");
            let more = poll_fn(|context| follower.poll_more(context));
            tokio::time::timeout(Duration::from_millis(ms), more).await.is_err()
        };
        // More than the ring has: who waits for other keys is none the slower for it.
        {
            let others = async {
                for _ in 0..60 {
                    world.put(&service, "k05", None).await;
                    tokio::time::sleep(Duration::from_millis(4)).await;
                }
            };
            let (mut has_waited, mut others) = (pin!(waits(&mut client, 400)), pin!(others));
            let mut are_written = false;
            let has_waited = poll_fn(|context| {
                are_written = are_written || others.as_mut().poll(context).is_ready();
                has_waited.as_mut().poll(context)
            });
            assert!(has_waited.await, "nothing of it is for this one");
        }
        world.put(&service, "k15", None).await;
        assert!(!waits(&mut client, 30_000).await);
        client.read_all().await;
        assert_eq!(client.state.len(), 1);
        let Since::Token(before) = client.since.clone() else { panic!("it was given a token") };
        world.clock.advance(Duration::from_mins(3));
        client.read_all().await;
        assert_ne!(client.since, Since::Token(before), "or else it would become too old");
        let end = store.feed.last().expect("it is followed");
        assert!(HybridClock::wall_ms(end) >= world.now_ms() - 1_000);
    });
    store.close().expect("a store that closes");
}
