use ladoga_runtime::{HotKeys, HotList, HotName, HotReport};

use crate::connection::Link;
use crate::door::Door;
use crate::http::{Answer, put_bytes};

const JSON: &str = "application/json";
/// Names of each kind in an answer.
const NAMES_MAX: usize = 20;

/// `GET` of the keys and prefixes that clients ask this node for most:
///
/// ```text
/// report  := {"reads": list, "writes": list}
/// list    := {"rate": accesses per second, "keys": [name, ...], "prefixes": [name, ...]}
/// name    := {"name": text, "rate": accesses per second, "share": 0 to 1, "share_max": 0 to 1}
/// ```
///
/// A name that is no UTF-8 is `name_base64`. One that is longer than 128 bytes is cut there, and has `bytes`. Who has a token is told
/// only names that the token is about.
pub(crate) fn hot<K>(door: &Door<K>, link: &Link) -> Answer {
    let is_told = |name: &HotName| {
        // It is not a request for the key, so it is none that was denied.
        link.caller().is_none_or(|caller| caller.may_see(&name.shown))
    };
    let loops = door.metrics.loops.iter().map(|metrics| -> &HotKeys { &metrics.hot });
    let HotReport { reads, writes } = HotReport::of(loops, door.core.clock.monotonic_ns());
    let mut out = b"{\"reads\":".to_vec();
    put_list(&mut out, &reads, is_told);
    out.extend_from_slice(b",\"writes\":");
    put_list(&mut out, &writes, is_told);
    out.extend_from_slice(b"}\n");
    Answer::content(JSON, out)
}

fn put_list(out: &mut Vec<u8>, list: &HotList, is_told: impl Fn(&HotName) -> bool) {
    out.extend_from_slice(format!("{{\"rate\":{:.1}", list.rate).as_bytes());
    for (what, names) in [("keys", &list.keys), ("prefixes", &list.prefixes)] {
        out.extend_from_slice(format!(",\"{what}\":[").as_bytes());
        for (index, name) in names.iter().filter(|name| is_told(name)).take(NAMES_MAX).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            put_name(out, name);
        }
        out.push(b']');
    }
    out.push(b'}');
}

fn put_name(out: &mut Vec<u8>, name: &HotName) {
    out.push(b'{');
    put_bytes(out, "name", &name.shown);
    if name.shown.len() < name.bytes {
        out.extend_from_slice(format!(",\"bytes\":{}", name.bytes).as_bytes());
    }
    let HotName { rate, share, share_max, .. } = name;
    let numbers = format!(",\"rate\":{rate:.1},\"share\":{share:.4},\"share_max\":{share_max:.4}}}");
    out.extend_from_slice(numbers.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(shown: &[u8], bytes: usize) -> HotName {
        HotName { shown: shown.into(), bytes, rate: 12.34, share: 0.5, share_max: 0.625 }
    }

    #[test]
    fn a_list_is_json_whatever_the_names_are() {
        let keys = vec![name(b"a\"b", 3), name(b"\xff", 1), name(b"long", 4096), name(b"secret", 6)];
        let list = HotList { rate: 24.68, keys, prefixes: Vec::new() };
        let mut out = Vec::new();
        put_list(&mut out, &list, |name| &*name.shown != b"secret");
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let expected = serde_json::json!({
            "rate": 24.7,
            "keys": [
                { "name": "a\"b", "rate": 12.3, "share": 0.5, "share_max": 0.625 },
                { "name_base64": "/w==", "rate": 12.3, "share": 0.5, "share_max": 0.625 },
                { "name": "long", "bytes": 4096, "rate": 12.3, "share": 0.5, "share_max": 0.625 },
            ],
            "prefixes": [],
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn no_more_names_than_people_read() {
        let keys = (0..100_u8).map(|byte| name(&[byte], 1)).collect();
        let mut out = Vec::new();
        put_list(&mut out, &HotList { rate: 1.0, keys, prefixes: Vec::new() }, |_| true);
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(read["keys"].as_array().map(Vec::len), Some(NAMES_MAX));
    }
}
