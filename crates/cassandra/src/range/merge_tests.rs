use ladoga_model::{Stamp, Version};
use ladoga_service::{KeyRange, Scope};

use super::super::record::Record;
use super::*;
use crate::row::Mark;

fn row(key: &'static str) -> Record {
    let version = Version { timestamp: 1, node: 0 };
    Record::unread(Bytes::from(key), Mark { stamp: Stamp::new(version), length: 0, upload: None })
}

/// Those that are merged of buckets that have been read to their ends.
fn merged(buckets: &[&[&'static str]]) -> Vec<(i32, String)> {
    let range = KeyRange {
        span: KeySpan { start: Bytes::new(), end: None, is_reverse: false },
        limit: None,
        scope: Scope::Cluster,
    };
    let count = buckets.len() as i32;
    let mut merge = Merge::new(count, &range.span, Page::of(&range, count, true));
    for (index, keys) in buckets.iter().enumerate() {
        // Nothing is left to be read of it.
        drop(merge.slices[index].take());
        merge.slices[index].rows.extend(keys.iter().copied().map(row));
        merge.show_head(index);
    }
    merge.is_starved = false;
    let next = std::iter::from_fn(|| merge.next());
    next.map(|merged| (merged.bucket, String::from_utf8_lossy(&merged.row.key).into_owned())).collect()
}

/// After the number of buckets was changed, all that followed in one of them was left out.
#[test]
fn a_key_in_two_buckets_hides_nothing_of_either() {
    let merged = merged(&[&["a", "c", "e"], &["b", "c", "d"]]);
    let expected = [(0, "a"), (1, "b"), (0, "c"), (1, "c"), (1, "d"), (0, "e")];
    assert_eq!(merged, expected.map(|(bucket, key)| (bucket, key.to_owned())));
}
