//! Large values in a log.

use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::WriteBatch;

use crate::support::Machine;
use crate::writer::{Writer, restored};

/// Each segment that named it had a copy made: of one whose time of expiry is changed each minute, one for each minute.
#[test]
fn a_large_value_that_several_segments_name_is_copied_once() {
    let (mut writer, machine) = (Writer::new(8), Machine::new(80));
    let env = machine.env();
    writer.back_up(&env).expect("a backup");
    let value = vec![7; 300_000];
    let mut large = writer.node.engine().create_blob().expect("room");
    large.write(&value).expect("room");
    let large = large.finish().expect("room");
    for key in ["a", "b", "c"] {
        writer.pass_ms(1);
        writer.last = HybridClock::following(writer.last, writer.now_ms());
        let stamp = Stamp::new(Version { timestamp: writer.last, node: 0 });
        let mut batch = WriteBatch::new();
        batch.put_blob(key.as_bytes(), stamp, large.clone());
        writer.node.engine().write_group(&[batch]).expect("room");
        writer.history.push((key.into(), stamp, Some(value.clone())));
        writer.node.engine().seal_log().expect("a sound disk");
    }
    let shipped = writer.ship(&env).expect("a log");
    assert_eq!(shipped.segments, 3);
    let found = restored(&env, writer.past_ms(), "/restored").expect("a restore");
    assert!(found == writer.model_at(writer.past_ms()));
    let is_large = |path: &std::path::PathBuf| path.starts_with("/restored/blobs");
    assert_eq!(machine.disk.paths().iter().filter(|path| is_large(path)).count(), 1);
}
