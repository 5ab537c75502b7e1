//! That whatever is sent has room in a frame.

use bytes::{Bytes, BytesMut};
use ladoga_cluster::{
    AsOf, Incarnation, KeyVersion, LIST_BYTES_MAX, LIST_KEYS_MAX, NODES_MAX, Origin, PARTITIONS, Partition,
    ReadAnswer, SentCell,
};
use ladoga_model::{Cell, CellMark, KEY_BYTES_MAX, Stamp, Value, Version};

use super::frame::INLINE_BYTES_MAX;
use super::{Answer, Base, Request};

/// What is longer than a frame is no message: whoever sends it panics.
#[test]
fn the_longest_messages_have_room_in_a_frame() {
    let (key, value) = (Bytes::from(vec![0; KEY_BYTES_MAX]), Bytes::from(vec![0; INLINE_BYTES_MAX as usize]));
    let behind = Bytes::from(vec![0; KEY_BYTES_MAX + 1]);
    let (stamp, durability) = (Stamp::new(Version::ZERO), None);
    let base = Base { met: vec![Incarnation::NONE; NODES_MAX], ..Base::default() };
    let slice = AsOf { before: 0, dropped_before: 0 };
    let (origin, is_again) = (Origin::Client, false);
    let partitions = (0..PARTITIONS / 2).map(|number| Partition(number as u16)).collect();
    // (An upload is accepted as a value is.)
    for request in [
        Request::Write { key: key.clone(), stamp, value: Some(value.clone()), origin, is_again, durability },
        Request::Accept { key: key.clone(), stamp, base, value: Some(value.clone()), durability },
        Request::Push { stream: 0, bytes: value.clone() },
        Request::List { slice, partitions, after: key.clone() },
        Request::OpenCells { start: behind.clone(), end: behind, is_reverse: true, has_values: false },
    ] {
        request.put(&mut BytesMut::new(), 0);
    }
    let mark = CellMark { stamp, is_tombstone: false };
    // The key that exceeds the bound of a page is its last one.
    let short = Bytes::from(vec![0; LIST_BYTES_MAX / (LIST_KEYS_MAX - 1)]);
    let keys = std::iter::repeat_n(short, LIST_KEYS_MAX - 1).chain([key.clone()]);
    let entries = keys.map(|key| KeyVersion { key, mark }).collect();
    let cell = Some(SentCell::Whole(Cell { stamp, value: Some(Value::Inline(value.clone())) }));
    for answer in [
        Answer::Read(ReadAnswer { cell, is_whole: true }),
        Answer::Piece(value),
        Answer::List { entries, next: Some(key) },
    ] {
        answer.put(&mut BytesMut::new(), 0);
    }
}
