use std::fmt;

use ring::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq;

use crate::hex::hex;

/// A shorter secret could be guessed.
pub const PEER_SECRET_BYTES_MIN: usize = 32;

/// The secret that all nodes of a cluster share. What a node shows of it is worth something only at the node that it is shown to: a
/// stranger that answers in the place of one node cannot go to the next one with it.
#[derive(Clone)]
pub struct PeerSecret(Key);

/// What comes before the proof in `Authorization`.
const SCHEME: &str = "Ladoga-Peer ";

impl PeerSecret {
    /// Reads what stands in a file, whose last newline does not count.
    pub fn parse(content: &[u8]) -> Option<PeerSecret> {
        let secret = content.trim_ascii();
        (secret.len() >= PEER_SECRET_BYTES_MIN).then(|| PeerSecret(Key::new(HMAC_SHA256, secret)))
    }

    /// The value of `Authorization` by which a node is let in to the one with this host and port.
    pub fn authorization(&self, authority: &str) -> String {
        let proof = sign(&self.0, format!("ladoga-peer {authority}").as_bytes());
        format!("{SCHEME}{}", hex(proof.as_ref()))
    }

    /// Whether this is it.
    pub fn admits(&self, authorization: &[u8], authority: &str) -> bool {
        self.authorization(authority).as_bytes().ct_eq(authorization).into()
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_node_and_by_one_secret() {
        let secret = |byte: u8| PeerSecret::parse(&[byte; PEER_SECRET_BYTES_MIN]).expect("long enough");
        let shown = secret(b'a').authorization("host:1");
        assert!(secret(b'a').admits(shown.as_bytes(), "host:1"));
        assert!(!secret(b'a').admits(shown.as_bytes(), "host:2"));
        assert!(!secret(b'b').admits(shown.as_bytes(), "host:1"));
        assert!(!secret(b'a').admits(b"", "host:1"));
        assert!(!shown.contains("aaaa"), "{shown}");
        assert_eq!(format!("{:?}", secret(b'a')), "PeerSecret");
    }

    #[test]
    fn a_secret_is_long_and_has_no_newline_at_its_end() {
        let text = [&[b'x'; PEER_SECRET_BYTES_MIN][..], b"\n"].concat();
        let shown = PeerSecret::parse(&text).expect("long enough").authorization("h");
        assert!(PeerSecret::parse(text.trim_ascii()).expect("the same").admits(shown.as_bytes(), "h"));
        assert!(PeerSecret::parse(&[b'x'; PEER_SECRET_BYTES_MIN - 1]).is_none());
        assert!(PeerSecret::parse(&[b' '; 100]).is_none());
    }
}
