//! Which replicas a read repairs, and what it learns from that.

use super::*;

/// A replica that came back wrote as much for reads that it answered first as for hints, in the second in which clients
/// had most to read from it.
#[test]
fn a_stale_replica_that_answers_first_costs_a_quorum_read_no_second_phase() {
    let first_two = || {
        let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
        assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
        assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [ReadStep::Wait]);
        core
    };
    let mut core = first_two();
    let decided = ReadStep::Decided(Ok(Some(value(2, 0))));
    let behind = [ReadStep::Repair(1, value(2, 0)), decided];
    assert_eq!(steps_of(&mut core, 2, Some(value(2, 0))), behind, "nobody waits for the repair");
    core.hurry(|step| panic!("{step:?}"));

    let mut core = first_two();
    let repairs = [ReadStep::Repair(1, value(2, 0)), ReadStep::Repair(2, value(2, 0))];
    assert_eq!(steps_of(&mut core, 2, None), repairs, "no answer can spare it any more");

    let mut core = first_two();
    let mut steps = Vec::new();
    core.hurry(|step| steps.push(step));
    assert_eq!(steps, [ReadStep::Repair(1, value(2, 0))], "the third may be frozen");
}

#[test]
fn a_newer_answer_after_the_decision_repairs_the_others() {
    let mut core = ReadCore::new(Replicas { ack: 1, from: 3 });
    assert_eq!(steps_of(&mut core, 0, Some(value(1, 0))), [ReadStep::Decided(Ok(Some(value(1, 0))))]);
    assert_eq!(steps_of(&mut core, 1, Some(value(2, 0))), [ReadStep::Repair(0, value(2, 0))]);
    assert_eq!(steps_of(&mut core, 2, None), [ReadStep::Repair(2, value(2, 0))]);
    assert!(!core.is_finished());
    for replica in [0, 2] {
        core.repaired(replica, NEW, Ok(WriteAnswer::Applied), |step| panic!("{step:?}"));
    }
    assert!(core.is_finished());
}

/// Every read of a key that it did not have yet wrote it to a node that was being rebuilt, beside the rebuild, which goes at
/// the pace of the foreground: clients saw it in every percentile.
#[test]
fn a_node_that_is_being_rebuilt_is_repaired_only_where_the_read_depends_on_it() {
    let not_whole = |core: &mut ReadCore<u64, ()>, cell: Option<TestCell>| {
        let mut steps = Vec::new();
        let cell = cell.map(SentCell::Whole);
        core.answered(2, Ok(ReadAnswer { cell, is_whole: false }), |step| steps.push(step));
        steps
    };
    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
    assert_eq!(not_whole(&mut core, None), []);
    assert_eq!(steps_of(&mut core, 1, Some(value(2, 0))), [ReadStep::Decided(Ok(Some(value(2, 0))))]);
    assert!(core.is_finished());

    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
    assert_eq!(not_whole(&mut core, Some(value(1, 0))), []);
    let repairs = [ReadStep::Repair(1, value(2, 0))];
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), repairs, "else a later read may miss it");
}

/// A read that had written y to a majority counted a replica that had got z in between as one that has y.
#[test]
fn a_replica_that_had_something_newer_when_it_was_repaired_is_no_witness() {
    let read = |had| {
        let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
        core.hurry(|step| panic!("{step:?}"));
        assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
        assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [ReadStep::Repair(1, value(2, 0))]);
        let mut steps = Vec::new();
        let superseded = WriteAnswer::Superseded { newest: NEWER, had };
        core.repaired(1, NEW, Ok(superseded), |step| steps.push(step));
        (core, steps)
    };
    let (_, steps) = read(Had::Once);
    assert_eq!(steps, [ReadStep::Decided(Ok(Some(value(2, 0))))]);
    for had in [Had::Never, Had::Unknown] {
        let (mut core, steps) = read(had);
        assert_eq!(steps, [ReadStep::Fetch(1)], "what is newer is read");
        assert_eq!(steps_of(&mut core, 1, Some(value(3, 0))), [ReadStep::Repair(0, value(3, 0))]);
        let mut steps = Vec::new();
        core.repaired(0, NEWER, Ok(WriteAnswer::Applied), |step| steps.push(step));
        assert_eq!(steps, [ReadStep::Decided(Ok(Some(value(3, 0))))]);
    }
}

/// The value of a key that was overwritten all the time could not be copied to who lacked it, and that counted as a broken connection.
#[test]
fn a_value_that_was_replaced_before_it_was_copied_is_read_again() {
    let begun = || {
        let mut core = ReadCore::new(Replicas { ack: 2, from: 2 });
        assert_eq!(steps_of(&mut core, 0, Some(value(1, 0))), []);
        assert_eq!(steps_of(&mut core, 1, Some(value(2, 0))), [ReadStep::Repair(0, value(2, 0))]);
        core
    };
    let replaced = |core: &mut ReadCore<u64, ()>, replica, version| {
        let mut steps = Vec::new();
        core.replaced(replica, version, |step| steps.push(step));
        steps
    };
    let mut core = begun();
    assert_eq!(replaced(&mut core, 0, NEW), [ReadStep::Fetch(1)]);
    assert_eq!(replaced(&mut core, 0, NEW), [], "it was told already");
    assert_eq!(steps_of(&mut core, 1, Some(value(3, 0))), [ReadStep::Repair(0, value(3, 0))]);
    let mut steps = Vec::new();
    core.repaired(0, NEWER, Ok(WriteAnswer::Applied), |step| steps.push(step));
    assert_eq!(steps, [ReadStep::Decided(Ok(Some(value(3, 0))))]);

    // Who shows it again and again, and cannot give it, is not asked for ever.
    let mut core = begun();
    for _ in 0..2 {
        assert_eq!(replaced(&mut core, 0, NEW), [ReadStep::Fetch(1)]);
        assert_eq!(steps_of(&mut core, 1, Some(value(2, 0))), [ReadStep::Repair(0, value(2, 0))]);
    }
    let [ReadStep::Decided(Err(error))] = &replaced(&mut core, 0, NEW)[..] else { panic!("it is not over") };
    assert_eq!(error.failures, [(0, Failure::Superseded)]);
}

/// It has lost its promises: what it is given meanwhile may be what it had promised not to take.
#[test]
fn a_node_that_is_being_rebuilt_is_no_witness() {
    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    core.hurry(|step| panic!("{step:?}"));
    assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
    let mut steps = Vec::new();
    let cell = Some(SentCell::Whole(value(2, 0)));
    core.answered(2, Ok(ReadAnswer { cell, is_whole: false }), |step| steps.push(step));
    assert_eq!(steps, []);
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [ReadStep::Repair(1, value(2, 0))]);
    core.repaired(1, NEW, Ok(WriteAnswer::Applied), |step| steps.push(step));
    assert_eq!(steps, [ReadStep::Decided(Ok(Some(value(2, 0))))]);
}

/// One that is being rebuilt refuses repairs, or says that it has something newer and does not show it: it was asked in turn, for
/// ever. It does not count, so it is not asked at all.
#[test]
fn a_replica_that_is_being_rebuilt_is_not_repaired() {
    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    core.hurry(|step| panic!("{step:?}"));
    assert_eq!(steps_of(&mut core, 0, Some(value(2, 0))), []);
    core.answered(2, Ok(ReadAnswer { cell: None, is_whole: false }), |step| panic!("{step:?}"));
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [ReadStep::Repair(1, value(2, 0))]);
    let mut steps = Vec::new();
    core.repaired(1, NEW, Ok(WriteAnswer::Applied), |step| steps.push(step));
    assert_eq!(steps, [ReadStep::Decided(Ok(Some(value(2, 0))))]);
    assert!(core.is_finished());
}
