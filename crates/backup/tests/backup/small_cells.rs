//! Cells of which many fit into few bytes.

use std::path::Path;

use ladoga_backup::restore_cells;
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::{Options, WriteBatch};

use crate::support::{Machine, Model, Node, found, repository};
use crate::writer::{Writer, keeping, restored};

const COUNT: u64 = 40_000;

/// A node with one segment of the log for all of them.
fn writer() -> Writer {
    let options = Options { memtable_bytes: Some(8 << 20), first_segment_bytes: Some(u64::MAX), ..keeping() };
    let node = Node::with(9, options);
    let clock = node.machine.clock.clone();
    Writer { node, clock, history: Vec::new(), last: 0 }
}

/// Writes this value to all keys, or deletes them.
fn write_all(writer: &mut Writer, value: Option<&[u8]>) {
    writer.last = HybridClock::following(writer.last, writer.now_ms());
    let stamp = Stamp::new(Version { timestamp: writer.last, node: 0 });
    for part in (0..COUNT).collect::<Vec<_>>().chunks(1_000) {
        let mut batch = WriteBatch::new();
        for number in part {
            let key = number.to_be_bytes();
            match value {
                Some(value) => batch.put(&key, stamp, value),
                None => batch.delete(&key, stamp),
            }
            writer.history.push((key.to_vec(), stamp, value.map(<[u8]>::to_vec)));
        }
        writer.node.engine().write_group(&[batch]).expect("room");
    }
}

/// They were written as one batch, which has no room in a memtable: each attempt to restore failed.
#[test]
fn many_small_cells_are_restored() {
    let (mut writer, machine) = (writer(), Machine::new(90));
    let env = machine.env();
    writer.back_up(&env).expect("a backup");
    write_all(&mut writer, Some(b"1"));
    writer.ship(&env).expect("a log");
    let put_ms = writer.past_ms();
    writer.pass_ms(1);
    write_all(&mut writer, None);
    writer.ship(&env).expect("a log");
    for at_ms in [put_ms, writer.past_ms()] {
        let at = restored(&env, at_ms, &format!("/at-{at_ms}")).expect("a restore");
        assert!(at == writer.model_at(at_ms), "{at_ms} of {put_ms}");
    }
    let id = writer.back_up(&env).expect("a backup");
    let backup = repository(&env).backup(&id).expect("a backup");
    restore_cells(&env, &repository(&env), &backup, Path::new("/cells"), &mut |_| {}).expect("a restore");
    let cells: Model = found(&env, Path::new("/cells")).expect("a store");
    assert!(cells == writer.model_at(writer.past_ms()));
}
