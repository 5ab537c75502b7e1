//! The disk fills up: puts are refused, all else goes on, nothing is lost, and with room everything comes back.

use ladoga_env::Disk;
use ladoga_env::sim::{Fault, Operation};
use ladoga_storage::{BLOB_PIECE_BYTES, Durability, Engine, Error, Options, WriteState};

use crate::support::{Machine, Model, Write, settle, tiny_options, write};

fn options() -> Options {
    Options { reserve_bytes: Some(64 << 10), ..tiny_options(Durability::Always) }
}

fn used(machine: &Machine) -> u64 {
    machine.disk.set_capacity(None);
    (1 << 40) - machine.disk.free_bytes(&machine.dir).unwrap()
}

/// A store to which puts go until they are refused.
struct Filled {
    machine: Machine,
    engine: Engine,
    model: Model,
    timestamp: u64,
}

impl Filled {
    fn new(options: Options, capacity_bytes: u64) -> Filled {
        let machine = Machine::new(5, options);
        let engine = machine.open().unwrap();
        machine.disk.set_capacity(capacity_bytes);
        let mut filled = Filled { machine, engine, model: Model::default(), timestamp: 0 };
        filled.fill();
        filled
    }

    fn put(&mut self, key: String) -> Result<(), Error> {
        self.timestamp += 1;
        let writes = [match self.timestamp % 9 {
            0 => Write::blob(key, self.timestamp, 2000),
            _ => Write::put(key, self.timestamp, 400),
        }];
        write(&self.engine, &writes)?;
        self.model.apply(&writes);
        Ok(())
    }

    /// Writes and works until a put is refused for lack of space.
    fn fill(&mut self) {
        for n in 0.. {
            assert!(n < 20_000, "never full");
            match self.put(format!("key-{n:05}")) {
                Ok(()) => {}
                Err(error) if error.is_disk_full() => return,
                Err(error) => panic!("{error}"),
            }
            if let Err(error) = self.engine.step() {
                assert!(error.is_disk_full(), "{error}");
            }
        }
    }

    fn delete(&mut self, n: u64) {
        self.timestamp += 1;
        let writes = [Write::delete(format!("key-{n:05}"), self.timestamp)];
        write(&self.engine, &writes).unwrap();
        self.model.apply(&writes);
    }

    fn assert_holds(&self, context: &str) {
        self.model.assert_held_by(&self.engine, self.machine.now_ms(), context);
    }

    fn assert_survives(mut self, context: &str) {
        self.assert_holds(context);
        let machine = self.machine;
        drop(self.engine);
        machine.assert_sound(context);
        self.engine = machine.open().unwrap();
        self.model.assert_held_by(&self.engine, machine.now_ms(), &format!("{context}, opened again"));
    }
}

#[test]
fn a_full_disk_refuses_puts_while_deletes_and_reads_go_on() {
    let mut filled = Filled::new(options(), 400 << 10);
    assert_eq!(filled.engine.write_state(), WriteState::DiskFull);
    let before = filled.engine.statistics().refused_full;
    let refused = filled.put("more".to_owned());
    assert!(
        matches!(refused, Err(Error::DiskFull { free_bytes, needed_bytes })
        if free_bytes < needed_bytes && needed_bytes == 72 << 10),
        "{refused:?}"
    );
    assert!(filled.engine.create_blob().is_err_and(|error| error.is_disk_full()));
    filled.engine.count_refused_full();
    assert_eq!(filled.engine.statistics().refused_full - before, 3, "each counts once");
    filled.assert_holds("full");
    (0..50).for_each(|n| filled.delete(n));
    filled.assert_holds("deleted");
    filled.assert_survives("full");
}

#[test]
fn puts_come_back_by_themselves_once_there_is_room() {
    let mut filled = Filled::new(options(), 400 << 10);
    filled.machine.disk.set_capacity(600 << 10);
    filled.put("more".to_owned()).unwrap();
    assert_eq!(filled.engine.write_state(), WriteState::Open);
    filled.fill();
    filled.assert_survives("full again");
}

#[test]
fn deleting_makes_room_for_puts() {
    // Flushing a memtable early is given up if the disk has no room for the next one.
    for flush_early_percent in [0, 25] {
        deleting_makes_room(Options { flush_early_percent, ..options() });
    }
}

/// Compactions that have more inputs than the disk has room for were tried for ever.
#[test]
fn deletes_make_room_where_no_compaction_has_any() {
    for capacity_bytes in [1_000 << 10, 1_500 << 10, 3_000 << 10] {
        // The proportions of the default options.
        let options = Options {
            memtable_bytes: Some(16 << 10),
            table_bytes: Some(32 << 10),
            level_1_bytes: None,
            reserve_bytes: None,
            ..options()
        };
        let mut filled = Filled::new(options, capacity_bytes);
        let count = filled.model.keys().count() as u64;
        for n in 0..count / 2 {
            filled.delete(n);
            if n % 10 == 0 {
                // May fail for lack of space, and goes on once there is some.
                _ = filled.engine.step();
            }
        }
        filled.engine.seal().unwrap();
        for _ in 0..1_000 {
            _ = filled.engine.step();
        }
        assert_eq!(filled.engine.write_state(), WriteState::Open, "{:?}", filled.engine.statistics());
        filled.put("more".to_owned()).unwrap();
        filled.assert_survives("half of it deleted");
    }
}

/// It was told that the disk is full, and that more is free than is needed.
#[test]
fn a_write_that_finds_no_space_on_a_disk_with_room_says_what_failed() {
    let machine = Machine::new(8, options());
    let engine = machine.open().unwrap();
    machine.disk.fail_operation(0, Fault::storage_full().on(Operation::Write).on_path("wal"));
    let refused = write(&engine, &[Write::put("key", 1, 400)]);
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert!(refused.is_err_and(|error| error.is_disk_full()));
    assert_eq!(engine.write_state(), WriteState::Open);
    write(&engine, &[Write::put("key", 2, 400)]).unwrap();
}

/// They took what flushes and compactions need to make room.
#[test]
fn large_values_leave_the_reserve_alone() {
    const RESERVE_BYTES: u64 = 2 << 20;
    const CAPACITY_BYTES: u64 = 4 << 20;
    let options = Options { reserve_bytes: Some(RESERVE_BYTES), ..tiny_options(Durability::Always) };
    let machine = Machine::new(6, options);
    let engine = machine.open().unwrap();
    machine.disk.set_capacity(CAPACITY_BYTES);
    engine.step().unwrap();
    let mut writers: Vec<_> = (0..3).map(|_| engine.create_blob().unwrap()).collect();
    let piece = vec![7; BLOB_PIECE_BYTES];
    let refused = (0..CAPACITY_BYTES).step_by(piece.len()).find_map(|_| {
        let written = writers.iter_mut().map(|writer| writer.write(&piece));
        written.collect::<Result<Vec<_>, _>>().err()
    });
    assert!(refused.is_some_and(|error| error.is_disk_full()));
    let free_bytes = machine.disk.free_bytes(&machine.dir).unwrap();
    assert!(free_bytes + 2 * piece.len() as u64 > RESERVE_BYTES, "{free_bytes} bytes are free");
    drop(writers);
    engine.step().unwrap();
    write(&engine, &[Write::put("small", 1, 100)]).unwrap();
}

fn deleting_makes_room(options: Options) {
    let mut filled = Filled::new(options, 400 << 10);
    let count = filled.model.keys().count() as u64;
    for n in 0..count {
        filled.delete(n);
        if n % 10 == 0 {
            filled.engine.drop_tombstones_before(filled.timestamp);
            // May fail for lack of space even for a flush, and goes on once there is some.
            _ = filled.engine.step();
        }
    }
    filled.engine.drop_tombstones_before(filled.timestamp + 1);
    filled.engine.seal().unwrap();
    settle(&filled.engine).unwrap();
    assert_eq!(filled.engine.write_state(), WriteState::Open);
    filled.put("more".to_owned()).unwrap();
    filled.fill();
    filled.assert_survives("full again");
}

/// What `change` makes of one key after the other, until that is refused, on a disk that has no room left beside a segment
/// that was made before it filled up.
fn taken_by_a_full_disk(seed: u64, options: Options, change: fn(String, u64) -> Write) -> u64 {
    let machine = Machine::new(seed, options);
    let engine = machine.open().unwrap();
    for n in 0..40 {
        write(&engine, &[Write::put(format!("key-{n}"), n + 1, 400)]).unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    // Opened again, it has the one segment that it writes to.
    let engine = machine.open().unwrap();
    let used = used(&machine);
    machine.disk.set_capacity(used);
    for n in 0.. {
        assert!(n < 1000, "never full");
        if let Err(error) = write(&engine, &[change(format!("key-{}", n % 40), 100 + n)]) {
            assert!(error.is_disk_full(), "{error}");
            assert_ne!(engine.write_state(), WriteState::Poisoned);
            return n;
        }
    }
    unreachable!("the numbers do not end")
}

#[test]
fn a_memtable_that_is_due_before_it_is_full_goes_on_where_the_disk_has_no_room_for_the_next() {
    let put = |key, timestamp| Write::put(key, timestamp, 100);
    for seed in 0..20 {
        let options = Options { reserve_bytes: Some(0), ..options() };
        let early = Options { flush_early_percent: 50, ..options.clone() };
        let expected = taken_by_a_full_disk(seed, options, put);
        assert_eq!(taken_by_a_full_disk(seed, early, put), expected, "{seed}: to be flushed early");
    }
    // Deletes count as what they hide: if that is more than the size of level 1, the memtable is flushed.
    let options = Options { reserve_bytes: Some(0), ..options() };
    let light = Options { level_1_bytes: Some(1 << 30), ..options.clone() };
    let expected = taken_by_a_full_disk(1, light, Write::delete);
    assert_eq!(taken_by_a_full_disk(1, options, Write::delete), expected, "heavy");
}

/// No reserve, so that flushes, compactions, rotations and the manifest meet the end of the disk themselves.
#[test]
fn whatever_meets_the_end_of_the_disk_loses_nothing() {
    for extra in 0..40 {
        let options = Options { reserve_bytes: Some(0), ..options() };
        let mut filled = Filled::new(options, (150 << 10) + extra * 1111);
        let context = format!("{extra}");
        assert_ne!(filled.engine.write_state(), WriteState::Poisoned, "{context}");
        filled.assert_holds(&context);
        // Still full: closing does what it can.
        if extra % 2 == 0 {
            filled.engine.close().unwrap();
            drop(filled.engine);
            filled.machine.disk.set_capacity(None);
            filled.machine.assert_sound(&context);
            filled.engine = filled.machine.open().unwrap();
        }
        filled.machine.disk.set_capacity(None);
        filled.put("more".to_owned()).unwrap();
        settle(&filled.engine).unwrap();
        filled.assert_survives(&context);
    }
}

/// The system reports that there is no room although there was: copy-on-write file systems, quotas.
#[test]
fn no_operation_that_finds_the_disk_full_poisons() {
    for operation in [Operation::Write, Operation::Allocate, Operation::Create] {
        for n in 0..400 {
            let machine = Machine::new(n, tiny_options(Durability::Always));
            let engine = machine.open().unwrap();
            machine.disk.fail_operation(n, Fault::storage_full().on(operation).on_path("wal"));
            let mut model = Model::default();
            for n in 0..60 {
                let writes = [Write::put(format!("key-{n}"), n + 1, 300)];
                match write(&engine, &writes) {
                    Ok(()) => model.apply(&writes),
                    Err(error) => assert!(error.is_disk_full(), "{error}"),
                }
            }
            assert_eq!(engine.write_state(), WriteState::Open, "{operation:?} {n}");
            model.assert_held_by(&engine, 0, "open");
            if machine.disk.faults_hit() == 0 {
                break;
            }
            drop(engine);
            machine.assert_sound("dropped");
            model.assert_held_by(&machine.open().unwrap(), 0, "opened again");
        }
    }
}

#[test]
fn a_full_disk_is_named_at_open_and_takes_nothing() {
    let filled = Filled::new(options(), 400 << 10);
    let Filled { machine, engine, model, .. } = filled;
    drop(engine);
    let used = used(&machine);
    for room in (0..20_000).step_by(500) {
        machine.disk.set_capacity(used + room);
        match machine.open() {
            Ok(engine) => model.assert_held_by(&engine, 0, &format!("{room} bytes of room")),
            Err(error) => assert!(error.is_disk_full(), "{room} bytes of room: {error}"),
        }
    }
    machine.disk.set_capacity(None);
    machine.assert_sound("with room");
    model.assert_held_by(&machine.open().unwrap(), 0, "with room");
}
