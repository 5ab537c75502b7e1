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

/// How many copies that are.
pub(crate) fn waits_for(replicas: Replicas) -> Replicas {
    let ack = match consistency(replicas) {
        Consistency::One => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum => replicas.majority() as u32,
        _ => replicas.from,
    };
    Replicas { ack, ..replicas }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rounded_up_is_known() {
        for (ack, from, expected) in
            [(1, 3, 1), (2, 3, 2), (3, 3, 3), (2, 5, 2), (3, 5, 3), (4, 5, 5), (4, 9, 5), (3, 9, 3)]
        {
            let waits_for = waits_for(Replicas { ack, from });
            assert_eq!(waits_for, Replicas { ack: expected, from }, "{ack}/{from}");
        }
    }

    #[test]
    fn never_fewer_answer_than_were_asked_for() {
        for from in 1..=12 {
            for ack in 1..=from {
                let found = waits_for(Replicas { ack, from });
                assert!((ack..=from).contains(&found.ack), "{ack}/{from}: {found:?}");
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
