//! `--fill` and servers that end their connections.

use crate::command::bench;
use crate::server::{Manner, Server};

/// The next request on that connection failed, and with it all: nginx ends one after a thousand requests.
#[test]
fn a_server_that_ends_connections_is_filled_over_new_ones() {
    for manner in [
        Manner::CloseAfter { answers: 100, says_so: true },
        Manner::CloseAfter { answers: 7, says_so: false },
        Manner::AnswerAndClose,
        Manner::WithoutLength,
    ] {
        let server = Server::start(manner);
        let ran = bench(&format!("-t1 -c1 -d100ms --workload get --keys 300 --fill {}", server.url()));
        assert!(ran.err.contains("filled with 300 of 300 keys"), "{manner:?}: {ran:?}");
    }
}

#[test]
fn a_server_that_ends_connections_before_any_answer_is_given_up() {
    for manner in [Manner::Reset, Manner::HalfClose] {
        let server = Server::start(manner);
        let ran = bench(&format!("-t1 -c1 -d1h --workload get --keys 300 --fill {}", server.url()));
        assert_eq!(ran.code, 1, "{manner:?}: {ran:?}");
        assert!(ran.err.contains("cannot fill the store: "), "{manner:?}: {ran:?}");
    }
}
