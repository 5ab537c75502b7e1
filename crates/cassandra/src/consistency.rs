use ladoga_model::Replicas;
use scylla::statement::Consistency;

/// How many of the copies of a key Cassandra waits for. What CQL has no word for is rounded up: 4 of 5 are all.
pub(crate) fn consistency(replicas: Replicas) -> Consistency {
    let Replicas { ack, from } = replicas;
    match ack as usize {
        1 => Consistency::One,
        ack if ack == replicas.majority() => Consistency::Quorum,
        _ if ack == from => Consistency::All,
        2 => Consistency::Two,
        3 => Consistency::Three,
        ack if ack < replicas.majority() => Consistency::Quorum,
        _ => Consistency::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_fewer_answer_than_were_asked_for() {
        let answers = |consistency, from| match consistency {
            Consistency::One => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum => from / 2 + 1,
            Consistency::All => from,
            other => unreachable!("{other} is not used"),
        };
        for from in 1..=12 {
            for ack in 1..=from {
                let found = consistency(Replicas { ack, from });
                assert!(answers(found, from) >= ack, "{ack}/{from}: {found}");
            }
        }
    }

    #[test]
    fn each_has_the_word_that_is_in_the_table_of_the_manual() {
        use Consistency::{All, One, Quorum, Three, Two};
        for (ack, from, expected) in [
            (1, 1, One),
            (1, 3, One),
            (2, 3, Quorum),
            (3, 3, All),
            (2, 2, Quorum),
            (2, 5, Two),
            (3, 5, Quorum),
            (4, 5, All),
            (3, 7, Three),
            (4, 9, Quorum),
        ] {
            assert_eq!(consistency(Replicas { ack, from }), expected, "{ack}/{from}");
        }
    }
}
