//! Writes that ask for a durability of their own, on a node whose power is cut.

use ladoga_env::Clock;
use ladoga_env::sim::{self, PowerCut, SimDisk};
use ladoga_service::{Precondition, StoreError};
use ladoga_storage::Durability;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::tests::{Expected, Lone, MustFail, Service, Step, context, is_of, newest, steps, take};
use super::*;

type Asking = (Step, Option<Durability>);

fn asking() -> impl Strategy<Value = Vec<Asking>> {
    let asked = proptest::option::of(proptest::sample::select(Durability::ALL.to_vec()));
    (steps(), proptest::collection::vec(asked, 24))
        .prop_map(|(steps, asked)| steps.into_iter().zip(asked).collect())
}

/// What a node went through.
struct Past {
    /// After each write that was acknowledged; the first is the empty node.
    states: Vec<Expected>,
    /// How many of those are on disk, because a write was acknowledged as that.
    durable: usize,
}

/// Takes the steps, one after the other, until one gets no answer because the power is off: it may have happened.
async fn run(service: Service, node: Durability, (disk, now_ms): (&SimDisk, u64), steps: &[Asking]) -> Past {
    let mut past = Past { states: vec![Expected::default()], durable: 0 };
    for (step, asked) in steps {
        let newest_state = past.states.last().expect("the first one");
        let context = Context { durability: *asked, ..context(newest_state.precondition(step)) };
        let after = newest_state.after(step);
        match (take(&service, step, &context).await, after) {
            (Ok(version), Ok(value)) => {
                let found = newest(&service, &[step.key]).await.expect("it is there");
                assert!(found.stamp.version == version && is_of(&found, value.as_ref(), now_ms), "{step:?}");
                let next = newest_state.with(step.key, Some((value, version)));
                past.states.push(next);
                if asked.unwrap_or(node) == Durability::Always {
                    past.durable = past.states.len() - 1;
                }
            }
            (Err(Error::PreconditionFailed { .. }), Err(MustFail::Precondition))
            | (Err(Error::NotFound { .. }), Err(MustFail::NotFound)) => {}
            (Err(Error::Store(StoreError::Failed { .. })), after) if !disk.is_powered() => {
                if let Ok(value) = after {
                    let next = newest_state.with(step.key, Some((value, Version::MAX)));
                    past.states.push(next);
                }
                return past;
            }
            (answer, after) => panic!("{step:?}: {answer:?}, expected {after:?}"),
        }
    }
    past
}

/// Whether the node has what it had in this state.
async fn is_in(state: &Expected, service: &Service, now_ms: u64) -> bool {
    for key in 0..3 {
        let is_so = match (state.state(key), newest(service, &[key]).await) {
            (None, None) => true,
            (Some((value, version)), Some(cell)) => {
                is_of(&cell, value.as_ref(), now_ms)
                    && (version == Version::MAX || version == cell.stamp.version)
            }
            _ => false,
        };
        if !is_so {
            return false;
        }
    }
    true
}

/// Cuts the power at an operation; answers whether there were so many.
fn survives(node: Durability, steps: &[Asking], (operation, policy): (u64, PowerCut), seed: u64) -> bool {
    let (env, disk, clock) = sim::env(seed);
    let lone = Lone::open(&env, node);
    disk.cut_power_at_operation(operation, policy);
    let now_ms = clock.wall_ms();
    let past = lone.on_a_loop(async |service| run(service, node, (&disk, now_ms), steps).await);
    let was_cut = !disk.is_powered();
    if !was_cut {
        disk.power_cut(policy);
    }
    drop(lone);
    disk.clear_faults();
    disk.power_on();
    let lone = Lone::open(&env, node);
    lone.on_a_loop(async |service| {
        let mut is_known = false;
        for state in &past.states[past.durable..] {
            is_known |= is_in(state, &service, now_ms).await;
        }
        assert!(
            is_known,
            "{node:?}, {policy:?} at operation {operation}: in none of the states that it may be in"
        );
        let asks = Context { durability: Some(Durability::Always), ..context(Precondition::None) };
        service.increment(&asks, b"another", 1).await.expect("it goes on");
    });
    was_cut
}

/// Each write survives that was acknowledged as one that is on disk, and so does all that was acknowledged before it.
#[test]
fn a_write_that_asked_survives_a_power_cut_at_every_operation_whatever_the_node_does_by_itself() {
    let config = Config { failure_persistence: None, ..Config::with_cases(4) };
    let runs = TestRunner::new(config).run(&(asking(), any::<u64>()), |(steps, seed)| {
        for node in Durability::ALL {
            for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
                let mut operation = 0;
                while survives(node, &steps, (operation, policy), seed) {
                    operation += 1;
                }
            }
        }
        Ok(())
    });
    runs.expect("no history that is none");
}

/// The value, put by a request that asks so; then the power is cut, and nothing stays that was not synced.
fn found_after_a_cut(node: Durability, asked: Option<Durability>, value: &'static [u8]) -> Option<u64> {
    let (env, disk, _clock) = sim::env(1);
    let lone = Lone::open(&env, node);
    lone.on_a_loop(async |service| {
        let context = Context { durability: asked, ..context(Precondition::None) };
        if (value.len() as u64) < service.upload_bytes_min() {
            service.put(&context, b"key", Bytes::from_static(value), ()).await.expect("a write");
        } else {
            let upload = service.upload(&context, b"key").await.expect("an upload");
            let upload = upload.write(Bytes::from_static(value)).await.expect("a piece");
            let finished = upload.finish().await.expect("a value");
            service.put_uploaded(&context, b"key", finished).await.expect("a write");
        }
    });
    disk.power_cut(PowerCut::LoseAll);
    drop(lone);
    disk.power_on();
    let lone = Lone::open(&env, node);
    let found = lone.on_a_loop(async |service| newest(&service, b"key").await);
    found?.value.map(|value| match value {
        model::Value::Inline(bytes) => bytes.len() as u64,
        model::Value::Large(large) => large.bytes,
    })
}

#[test]
fn a_power_cut_takes_what_did_not_ask_and_leaves_what_did() {
    static LARGE: [u8; 400 << 10] = [7; 400 << 10];
    for node in Durability::ALL {
        for value in [&b"small"[..], &LARGE[..]] {
            let bytes = Some(value.len() as u64);
            assert_eq!(found_after_a_cut(node, Some(Durability::Always), value), bytes, "{node:?}");
            assert_eq!(found_after_a_cut(node, Some(Durability::Never), value), None, "{node:?}");
            assert_eq!(found_after_a_cut(node, Some(Durability::EverySecond), value), None, "{node:?}");
            let by_default = bytes.filter(|_| node == Durability::Always);
            assert_eq!(found_after_a_cut(node, None, value), by_default, "{node:?}");
        }
    }
}

/// It is refused before its value is sent, and nothing is written that would be synced.
#[test]
fn a_precondition_that_is_not_met_is_told_once_what_it_was_decided_by_is_as_durable_as_was_asked() {
    for (asked, survives) in [(None, true), (Some(Durability::Never), false)] {
        let (env, disk, _clock) = sim::env(1);
        let lone = Lone::open(&env, Durability::Always);
        lone.on_a_loop(async |service| {
            let never = Context { durability: Some(Durability::Never), ..context(Precondition::None) };
            service.put(&never, b"key", Bytes::from_static(b"value"), ()).await.expect("a write");
            let asks = Context { durability: asked, ..context(Precondition::IfNoneMatchAny) };
            service.admit_conditional(&asks, b"another", 9_000).await.expect("there is none");
            let refused = service.admit_conditional(&asks, b"key", 9_000).await;
            assert!(matches!(refused, Err(Error::PreconditionFailed { .. })), "{refused:?}");
        });
        disk.power_cut(PowerCut::LoseAll);
        drop(lone);
        disk.power_on();
        let lone = Lone::open(&env, Durability::Always);
        let found = lone.on_a_loop(async |service| newest(&service, b"key").await);
        assert_eq!(found.is_some(), survives, "{asked:?}");
    }
}
