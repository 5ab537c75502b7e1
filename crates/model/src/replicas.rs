use crate::Quote;

/// How many replicas a key has, and how many of them must answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replicas {
    /// How many must answer.
    pub ack: u32,
    /// How many nodes the key lives on.
    pub from: u32,
}

/// Why the replicas that a request asks for cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicasError {
    /// `replicas` is not `ACK/FROM`.
    #[error("replicas is {found}, expected ACK/FROM, as in 2/3")]
    NoFraction {
        /// What it is.
        found: Quote,
    },
    /// Something is not a number.
    #[error("{name} is {found}, expected a number from 1 to {nodes}")]
    NoNumber {
        /// Which one.
        name: &'static str,
        /// What it is.
        found: Quote,
        /// The size of the cluster.
        nodes: u32,
    },
    /// Both forms of the parameter are given.
    #[error("replicas is given together with ack or from, expected one of the two forms")]
    BothForms,
    /// It asks for an acknowledgement by no node.
    #[error("ack is 0, expected 1 to from ({from})")]
    AckZero {
        /// The number of replicas.
        from: u32,
    },
    /// More than all would have to answer.
    #[error("ack is {ack}, expected 1 to from ({from})")]
    AckOverFrom {
        /// The number of answers.
        ack: u32,
        /// The number of replicas.
        from: u32,
    },
    /// No replicas, or more than nodes.
    #[error("from is {from}, expected 1 to {nodes}, as many nodes as a key can live on")]
    FromOutside {
        /// The number of replicas.
        from: u32,
        /// On how many nodes a key can live: all of a cluster of ours, some of another one.
        nodes: u32,
    },
}

impl Replicas {
    /// All nodes, of which a majority must answer: the default.
    pub const fn majority_of(nodes: u32) -> Replicas {
        Replicas { ack: nodes / 2 + 1, from: nodes }
    }

    /// How many of `from` are a majority.
    pub const fn majority(self) -> usize {
        self.from as usize / 2 + 1
    }

    /// Whether a read with these numbers sees every write that was acknowledged with them.
    pub const fn is_quorum(self) -> bool {
        2 * self.ack > self.from
    }

    /// What the parameters `replicas`, `ack` and `from` ask of a cluster of `nodes`. One of `ack` and `from` given
    /// alone takes the other's default.
    pub fn parse(
        replicas: Option<&[u8]>,
        ack: Option<&[u8]>,
        from: Option<&[u8]>,
        nodes: u32,
    ) -> Result<Replicas, ReplicasError> {
        let (ack, from) = match (replicas, ack, from) {
            (None, None, None) => return Ok(Replicas::majority_of(nodes)),
            (Some(both), None, None) => {
                let mut parts = both.splitn(2, |&byte| byte == b'/');
                let (Some(ack), Some(from)) = (parts.next(), parts.next()) else {
                    return Err(ReplicasError::NoFraction { found: Quote::of(both) });
                };
                (Some(ack), Some(from))
            }
            (None, ack, from) => (ack, from),
            (Some(_), _, _) => return Err(ReplicasError::BothForms),
        };
        let from = from.map_or(Ok(nodes), |text| number("from", text, nodes))?;
        let default = Replicas::majority_of(from);
        let ack = ack.map_or(Ok(default.ack), |text| number("ack", text, nodes))?;
        Replicas { ack, from }.check(nodes)
    }

    fn check(self, nodes: u32) -> Result<Replicas, ReplicasError> {
        let Replicas { ack, from } = self;
        if from == 0 || from > nodes {
            Err(ReplicasError::FromOutside { from, nodes })
        } else if ack == 0 {
            Err(ReplicasError::AckZero { from })
        } else if ack > from {
            Err(ReplicasError::AckOverFrom { ack, from })
        } else {
            Ok(self)
        }
    }
}

fn number(name: &'static str, text: &[u8], nodes: u32) -> Result<u32, ReplicasError> {
    // `u32::from_str` takes a plus sign; a number here is digits.
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let value = is_number.then(|| str::from_utf8(text).ok()?.parse().ok()).flatten();
    value.ok_or_else(|| ReplicasError::NoNumber { name, found: Quote::of(text), nodes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(replicas: &str, nodes: u32) -> Result<(u32, u32), ReplicasError> {
        Replicas::parse(Some(replicas.as_bytes()), None, None, nodes).map(|r| (r.ack, r.from))
    }

    fn parse_pair(ack: Option<&str>, from: Option<&str>, nodes: u32) -> Result<(u32, u32), ReplicasError> {
        Replicas::parse(None, ack.map(str::as_bytes), from.map(str::as_bytes), nodes).map(|r| (r.ack, r.from))
    }

    #[test]
    fn says_nothing_gets_a_majority_of_all() {
        let defaults = (1..=5).map(|nodes| Replicas::majority_of(nodes).ack).collect::<Vec<_>>();
        assert_eq!(defaults, [1, 2, 2, 3, 3]);
        assert_eq!(Replicas::parse(None, None, None, 3), Ok(Replicas { ack: 2, from: 3 }));
    }

    #[test]
    fn one_alone_takes_the_others_default() {
        assert_eq!(parse_pair(Some("1"), None, 3), Ok((1, 3)));
        assert_eq!(parse_pair(None, Some("2"), 3), Ok((2, 2)));
        assert_eq!(parse_pair(Some("2"), Some("3"), 3), Ok((2, 3)));
    }

    #[test]
    fn both_forms_at_once_are_refused() {
        let both = Replicas::parse(Some(b"1/1"), Some(b"1"), None, 1);
        assert_eq!(both, Err(ReplicasError::BothForms));
    }

    #[test]
    fn the_bounds_are_inclusive() {
        assert_eq!(parse("1/1", 1), Ok((1, 1)));
        assert_eq!(parse("3/3", 3), Ok((3, 3)));
        assert_eq!(parse("0/1", 1), Err(ReplicasError::AckZero { from: 1 }));
        assert_eq!(parse("1/0", 1), Err(ReplicasError::FromOutside { from: 0, nodes: 1 }));
        assert_eq!(parse("2/1", 1), Err(ReplicasError::AckOverFrom { ack: 2, from: 1 }));
        assert_eq!(parse("1/2", 1), Err(ReplicasError::FromOutside { from: 2, nodes: 1 }));
        assert!(parse("0/0", 1).is_err());
    }

    /// A door to Cassandra said of a cluster of nine nodes that it has three.
    #[test]
    fn too_many_are_told_without_a_word_on_how_many_nodes_there_are() {
        let refused = parse("2/4", 3).expect_err("there are three at most").to_string();
        assert_eq!(refused, "from is 4, expected 1 to 3, as many nodes as a key can live on");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", "/", "1", "1/", "/1", "+1/1", "1/1/1", "a/b", "-1/1", "1.0/1", "4294967296/1", " 1/1"]
        {
            assert!(parse(text, 1).is_err(), "{text}");
        }
    }
}
