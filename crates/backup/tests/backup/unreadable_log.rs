use std::path::Path;

use ladoga_backup::{Error, LogListing, LogSource, Repository, Shipped};
use ladoga_env::Env;
use ladoga_env::sim::{Fault, Operation};
use ladoga_storage::LogFile;

use crate::support::{Machine, REPOSITORY};
use crate::writer::{KEEP_MS, NodeLog, Writer, restored, span};

/// A node with a backup, and three segments behind it: in the second is a large value, too. Answers up to when the backup is, and
/// how the names of the second begin.
fn with_three_segments(env: &Env) -> (Writer, u64, String) {
    let mut writer = Writer::new(21);
    writer.write_some(env, 5);
    writer.back_up(env).expect("a backup");
    let before_ms = writer.past_ms();
    writer.pass_ms(1);
    let number = |writer: &Writer| {
        writer.node.engine().seal_log().expect("a seal");
        writer.node.engine().kept_log(0, 99).last().expect("a segment").number
    };
    writer.write(1, Some(b"first"), 0);
    let first = number(&writer);
    writer.write(2, Some(b"second"), 0);
    writer.write(3, Some(&vec![3; 300_000]), 0);
    let second = number(&writer);
    writer.write(4, Some(b"third"), 0);
    assert!(first < second && second < number(&writer));
    (writer, before_ms, format!("wal-kept/{second:06}"))
}

fn fail(writer: &Writer, fault: Fault, names: &str) {
    writer.node.machine.disk.fail_operation(0, fault.on(Operation::Read).on_path(names).sticky());
}

#[track_caller]
fn expect_gap(shipped: &Shipped) {
    assert!(shipped.gaps.len() == 1 && shipped.gaps[0].contains("cannot read all of"), "{:?}", shipped.gaps);
}

/// No point in time was added for as long as the log was kept, and no backup had a place in it.
#[test]
fn a_segment_that_the_node_cannot_read_is_a_gap_and_what_follows_is_good() {
    for file in ["-", ""] {
        let machine = Machine::new(85);
        let env = machine.env();
        let (mut writer, before_ms, names) = with_three_segments(&env);
        fail(&writer, Fault::io(), &format!("{names}{file}"));
        let shipped = writer.ship(&env).expect("the rest of it");
        expect_gap(&shipped);
        assert_eq!((shipped.segments, shipped.chain.expect("a chain").segments.len()), (2, 1));
        let found = restored(&env, before_ms, "/before").expect("what was before it");
        assert!(found == writer.model_at(before_ms));
        let id = writer.back_up(&env).expect("a backup with a place in the log");
        writer.write(5, Some(b"later"), 0);
        assert_eq!(writer.ship(&env).expect("the rest of it").gaps, Vec::<String>::new());
        let until_ms = span(&env, &id).1;
        assert!(restored(&env, until_ms, "/until").expect("a restore") == writer.model_at(until_ms));
    }
}

#[test]
fn a_log_begins_anew_if_the_node_cannot_read_the_segment_that_was_fetched_last() {
    let machine = Machine::new(86);
    let env = machine.env();
    let (mut writer, before_ms, _) = with_three_segments(&env);
    writer.ship(&env).expect("a log");
    let last = writer.node.engine().kept_log(0, 99).last().expect("a segment").number;
    writer.write(5, Some(b"later"), 0);
    fail(&writer, Fault::io(), &format!("wal-kept/{last:06}"));
    let Shipped { segments, gaps, .. } = writer.ship(&env).expect("the rest of it");
    assert!(gaps.len() == 1 && gaps[0].contains("cannot read the segment before"), "{gaps:?}");
    assert_eq!(segments, 1, "what came before it is not fetched again");
    assert_eq!(writer.ship(&env).expect("nothing new").gaps, Vec::<String>::new());
    assert!(restored(&env, before_ms, "/before").expect("as before") == writer.model_at(before_ms));
}

/// Each attempt failed until the node was started again.
#[test]
fn a_log_begins_anew_if_the_node_lost_the_segment_that_was_fetched_last() {
    let machine = Machine::new(89);
    let env = machine.env();
    let (mut writer, before_ms, _) = with_three_segments(&env);
    writer.ship(&env).expect("a log");
    let last = writer.node.engine().kept_log(0, 99).last().expect("a segment").number;
    let path = writer.node.engine().kept_log_path(LogFile::Segment(last)).expect("it is listed");
    writer.node.machine.env().disk.remove(&path).expect("it is there");
    writer.write(5, Some(b"later"), 0);
    let Shipped { segments, gaps, .. } = writer.ship(&env).expect("the rest of it");
    assert!(gaps.len() == 1 && gaps[0].contains("lost the segment before"), "{gaps:?}");
    assert_eq!(segments, 1);
    assert_eq!(writer.ship(&env).expect("nothing new").gaps, Vec::<String>::new());
    assert!(restored(&env, before_ms, "/before").expect("as before") == writer.model_at(before_ms));
}

/// A node on which the hour for which it keeps a segment ends just before a piece of it is asked for.
struct Aging<'w>(NodeLog<'w>);

impl LogSource for Aging<'_> {
    fn list(&mut self, after: u64) -> Result<LogListing, Error> {
        self.0.list(after)
    }

    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        self.0.writer.pass_ms(KEEP_MS + 1);
        self.0.writer.node.engine().step()?;
        self.0.read(file, offset, bytes_max)
    }
}

#[test]
fn a_segment_that_is_kept_no_longer_when_it_is_compared_is_no_gap() {
    let machine = Machine::new(90);
    let env = machine.env();
    let (writer, _, _) = with_three_segments(&env);
    writer.ship(&env).expect("a log");
    let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY)).expect("a repository");
    let mut aging = Aging(writer.log());
    let (shipped, done) = repository.ship(&writing, ("http://node", u64::MAX), &mut aging);
    done.expect("nothing new");
    assert_eq!(writer.node.engine().kept_log(0, 99), []);
    assert_eq!((shipped.segments, shipped.gaps), (0, Vec::new()));
}

/// It was fetched again with each attempt.
#[test]
fn what_came_before_a_node_that_fails_is_not_fetched_again() {
    let machine = Machine::new(87);
    let env = machine.env();
    let (writer, before_ms, names) = with_three_segments(&env);
    fail(&writer, Fault::too_many_files(), &names);
    writer.ship(&env).expect_err("no file can be opened");
    writer.node.machine.disk.clear_faults();
    let shipped = writer.ship(&env).expect("a log");
    assert_eq!((shipped.segments, shipped.gaps.len()), (2, 0));
    assert!(restored(&env, before_ms, "/before").expect("a restore") == writer.model_at(before_ms));
}

/// The chain behind the gap was written down before the error, and no later attempt told the gap.
#[test]
fn a_gap_is_told_although_the_node_fails_behind_it() {
    let machine = Machine::new(88);
    let env = machine.env();
    let (writer, before_ms, second) = with_three_segments(&env);
    writer.node.engine().seal_log().expect("a seal");
    let third = writer.node.engine().kept_log(0, 99).last().expect("a segment").number;
    fail(&writer, Fault::io(), &second);
    fail(&writer, Fault::too_many_files(), &format!("wal-kept/{third:06}"));
    let (repository, writing) = Repository::create(&env.disk, Path::new(REPOSITORY)).expect("a repository");
    let (shipped, done) = repository.ship(&writing, ("http://node", u64::MAX), &mut writer.log());
    done.expect_err("no file can be opened");
    drop(writing);
    expect_gap(&shipped);
    writer.node.machine.disk.clear_faults();
    let rest = writer.ship(&env).expect("the rest of it");
    assert_eq!((rest.segments, rest.gaps.len()), (1, 0));
    assert!(restored(&env, before_ms, "/before").expect("what was before it") == writer.model_at(before_ms));
}
