use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::corpus::streams;
use super::oracle::compare;
use super::reading::read;

/// Pieces of requests that mean something, in an order that need not.
const PIECES: [&str; 26] = [
    "GET / HTTP/1.1\r\n",
    "PUT /k HTTP/1.1\r\n",
    "POST /k HTTP/1.0\r\n",
    "Host: h\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "X: y\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    ":",
    "5\r\n",
    "0\r\n",
    "value",
    "value\r\n",
    "0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ";a=b\r\n",
    "f",
    "\0",
    ", ",
];

/// Some of the streams of the corpus behind each other, with a few bytes changed; or pieces in any order.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), any::<u8>(), 0..4_u8);
    let changed = (vec(select(streams()), 1..4), vec(change, 0..3)).prop_map(|(streams, changes)| {
        let mut stream = streams.concat();
        for (place, byte, how) in changes {
            let at = place.index(stream.len() + 1);
            match how {
                0 => stream.insert(at, byte),
                1 => stream.insert(at, b"\r\n\0 :;,0"[usize::from(byte % 8)]),
                _ if at == stream.len() => stream.push(byte),
                2 => stream[at] = byte,
                _ => drop(stream.remove(at)),
            }
        }
        stream
    });
    let pieces = vec(select(&PIECES), 0..30).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![changed, pieces]
}

fn pieces<'s>(stream: &'s [u8], cuts: &[Index]) -> Vec<&'s [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    places.sort_unstable();
    let ends = places.iter().copied().chain([stream.len()]);
    ends.scan(0, |start, end| Some(&stream[std::mem::replace(start, end)..end]))
        .filter(|piece| !piece.is_empty())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_cut_gives_the_same_requests_and_the_same_end(stream in stream(), cuts in vec(any::<Index>(), 0..6)) {
        let whole = read([&*stream]);
        prop_assert_eq!(&read(pieces(&stream, &cuts)), &whole, "{}", stream.escape_ascii());
        prop_assert_eq!(&read(stream.chunks(1)), &whole, "{}", stream.escape_ascii());
    }

    #[test]
    fn hyper_sees_no_fewer_requests_however_the_bytes_are_changed(stream in stream()) {
        compare(&stream);
    }
}

/// Heads of so many lengths that parsing again at every byte would take long.
#[test]
fn long_heads_may_be_cut_too() {
    for fields_bytes in [900, 1_100, 5_000, 16_300, 16_400, 40_000] {
        for end in ["\r\n\r\n", "\n\n", "\r\n\0\r\n\r\n", ""] {
            let stream = format!(
                "GET / HTTP/1.1\r\nHost: h\r\nX: {}{end}GET / HTTP/1.1\r\nHost: h\r\n\r\n",
                "v".repeat(fields_bytes)
            );
            let whole = read([stream.as_bytes()]);
            for step in [1, 2, 7, 1_000, 1_024, 16_384] {
                assert_eq!(
                    read(stream.as_bytes().chunks(step)),
                    whole,
                    "{fields_bytes} bytes, {end:?}, by {step}"
                );
            }
        }
    }
}
