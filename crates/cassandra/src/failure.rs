//! What Cassandra or its driver answers instead of doing what it is asked, as the service says it.

use std::time::Duration;

use ladoga_model::Replicas;
use ladoga_service::{Error, StoreError, TooFewReplicas};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use crate::retries::{Tried, unknown, unknown_of_answer};

/// What is in the words of Cassandra if nodes have used up the room that its configuration permits them
/// (`data_disk_usage_percentage_fail_threshold`). There is no other sign of it.
const QUOTA: &str = "disk usage exceeds failure threshold";

/// So much is repeated of what it says.
const WORDS_CHARS_MAX: usize = 400;

/// What was asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) replicas: Replicas,
    pub(crate) is_write: bool,
    /// Whether Cassandra decides about the write.
    is_decided: bool,
}

impl Asked {
    pub(crate) const fn read(replicas: Replicas) -> Asked {
        Asked { replicas, is_write: false, is_decided: false }
    }

    pub(crate) const fn write(replicas: Replicas) -> Asked {
        Asked { replicas, is_write: true, is_decided: false }
    }

    /// A lightweight transaction.
    pub(crate) const fn decided(replicas: Replicas) -> Asked {
        Asked { replicas, is_write: true, is_decided: true }
    }

    /// Too few of the copies answered, in Cassandra's own words.
    fn too_few(self, (acked, required): (i32, i32), may_have_happened: bool, why: String) -> Error {
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        Error::TooFewReplicas(Box::new(TooFewReplicas {
            acked: count(acked),
            required: count(required),
            asked: self.replicas.from as usize,
            failures: vec![("Cassandra says:".to_owned(), why)],
            may_have_happened,
        }))
    }

    /// The time of the request is over.
    pub(crate) fn timed_out(self, after: Duration) -> Error {
        let why = format!("nothing within {} ms", after.as_millis());
        self.too_few((0, self.replicas.ack.cast_signed()), self.is_write, why)
    }

    /// It is unknown whether a write happened.
    pub(crate) fn unclear(self, why: String) -> Error {
        self.too_few((0, self.replicas.ack.cast_signed()), true, why)
    }

    /// What the last attempt came to, or an earlier one, if that says more.
    pub(crate) fn failed(self, error: &ExecutionError, tried: Tried) -> Error {
        let told = match (error, &tried.answered) {
            // That the next node is dead is not why the request failed.
            (ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_), Some((error, words))) => {
                self.refused(error, words)
            }
            _ => self.ended(error),
        };
        let unclear = |unknown: &str, reason: &str| self.unclear(format!("{unknown}; then {reason}"));
        match (told, tried.into_unknown().filter(|_| self.is_write)) {
            (Error::TooFewReplicas(few), Some(_)) => {
                Error::TooFewReplicas(Box::new(TooFewReplicas { may_have_happened: true, ..*few }))
            }
            (Error::Store(StoreError::Unreachable { reason }), Some(unknown)) => unclear(&unknown, &reason),
            (Error::Store(StoreError::NoRoom { reason }), Some(unknown)) => unclear(&unknown, &reason),
            (told, _) => told,
        }
    }

    fn ended(self, error: &ExecutionError) -> Error {
        match error {
            ExecutionError::RequestTimeout(after) => self.timed_out(*after),
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, words)) => {
                self.refused(error, words)
            }
            ExecutionError::LastAttemptError(attempt) => match unknown(attempt) {
                Some(why) if self.is_write => self.unclear(why),
                _ => unreachable(format_args!("Cassandra cannot be asked: {error}")),
            },
            ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => {
                unreachable(format_args!("no node of Cassandra can be reached: {error}"))
            }
            other => unreachable(format_args!("Cassandra cannot be asked: {other}")),
        }
    }

    fn refused(self, error: &DbError, words: &str) -> Error {
        match error {
            DbError::Unavailable { consistency, required, alive } => {
                let why = format!("{alive} of the {required} replicas that it needs are alive");
                // Those that decide are counted first, at a level of their own. What is said of another one is about those that were to
                // learn what was decided.
                let may_have_happened = self.is_decided && !consistency.is_serial();
                self.too_few((0, *required), may_have_happened, why)
            }
            DbError::ReadTimeout { received, required, .. } => {
                self.too_few((*received, *required), false, error.to_string())
            }
            DbError::WriteTimeout { received, required, .. } => {
                self.too_few((*received, *required), true, error.to_string())
            }
            // Nodes answered that they cannot: only Cassandra's own words say why.
            DbError::ReadFailure { received, required, .. } => {
                self.too_few((*received, *required), false, format!("{error}: {}", quoted(words)))
            }
            DbError::WriteFailure { received, required, .. } => {
                self.too_few((*received, *required), true, format!("{error}: {}", quoted(words)))
            }
            DbError::Unauthorized => unreachable(format_args!(
                "the user of --cassandra-user has too few rights: {words}; GRANT SELECT and MODIFY on its keyspaces TO it"
            )),
            DbError::Invalid if words.contains(QUOTA) => {
                Error::Store(StoreError::NoRoom { reason: format!("Cassandra has no room: {words}") })
            }
            _ => match unknown_of_answer(error, words) {
                Some(why) if self.is_write => self.unclear(why),
                _ => unreachable(format_args!("Cassandra refuses: {error}: {words}")),
            },
        }
    }
}

/// Words of Cassandra as part of a line, and no more of them than anybody reads.
fn quoted(words: &str) -> String {
    let printable = words.chars().map(|char| if char.is_control() { ' ' } else { char });
    printable.take(WORDS_CHARS_MAX).collect()
}

/// `503`: not now.
pub(crate) fn unreachable(reason: impl std::fmt::Display) -> Error {
    Error::Store(StoreError::Unreachable { reason: reason.to_string().into() })
}

/// What is stored is none of ours, or not all of it.
pub(crate) fn unreadable(reason: impl std::fmt::Display) -> StoreError {
    StoreError::Unreadable { reason: reason.to_string() }
}

/// The same error where only the store is asked, about pieces: no row names them yet, so the write of the value has not happened.
pub(crate) fn of_store(error: Error) -> StoreError {
    match error {
        Error::Store(error) => error,
        Error::TooFewReplicas(few) => {
            StoreError::TooFewReplicas(Box::new(TooFewReplicas { may_have_happened: false, ..*few }))
        }
        other => StoreError::Unreachable { reason: other.to_string().into() },
    }
}

/// The same where the service is asked.
pub(crate) fn of_upload(error: Error) -> Error {
    Error::Store(of_store(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::{OperationType, WriteType};
    use scylla::statement::Consistency;

    const TWO_OF_THREE: Replicas = Replicas { ack: 2, from: 3 };

    fn told(asked: Asked, error: DbError) -> Error {
        let attempt = RequestAttemptError::DbError(error, "words".to_owned());
        asked.failed(&ExecutionError::LastAttemptError(attempt), Tried::default())
    }

    #[test]
    fn the_numbers_of_cassandra_are_told_and_whether_a_write_may_have_happened() {
        let consistency = Consistency::Quorum;
        let timeout =
            DbError::WriteTimeout { consistency, received: 1, required: 2, write_type: WriteType::Simple };
        let error = told(Asked::write(TWO_OF_THREE), timeout);
        let text = error.to_string();
        assert!(text.starts_with("1 of 3 replicas answered, expected 2: Cassandra says: "), "{text}");
        assert!(text.ends_with("; the write may have happened"), "{text}");
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        let error = told(Asked::write(TWO_OF_THREE), unavailable);
        assert_eq!(
            error.to_string(),
            "0 of 3 replicas answered, expected 2: Cassandra says: 1 of the 2 replicas that it needs are alive"
        );
        let late = ExecutionError::RequestTimeout(Duration::from_secs(5));
        let late = Asked::read(TWO_OF_THREE).failed(&late, Tried::default());
        assert!(matches!(late, Error::TooFewReplicas(few) if !few.may_have_happened && few.required == 2));
    }

    /// An increment that was agreed on, and that too few live nodes could be told of, was answered as one that had not happened.
    #[test]
    fn what_cassandra_agreed_on_may_have_happened_though_too_few_are_alive_to_be_told() {
        for (asked, consistency, may_have_happened) in [
            (Asked::decided(TWO_OF_THREE), Consistency::All, true),
            (Asked::decided(TWO_OF_THREE), Consistency::Quorum, true),
            (Asked::decided(TWO_OF_THREE), Consistency::Serial, false),
            (Asked::write(TWO_OF_THREE), Consistency::All, false),
            (Asked::read(TWO_OF_THREE), Consistency::All, false),
        ] {
            let error = told(asked, DbError::Unavailable { consistency, required: 3, alive: 2 });
            let Error::TooFewReplicas(few) = error else { panic!("{error}") };
            assert_eq!(few.may_have_happened, may_have_happened, "{asked:?} {consistency}");
        }
    }

    /// A piece that too few nodes took or had was answered as if no node could be reached.
    #[test]
    fn too_few_copies_of_a_piece_are_too_few_copies() {
        let few = of_store(Asked::write(TWO_OF_THREE).timed_out(Duration::from_secs(5)));
        assert!(matches!(&few, StoreError::TooFewReplicas(few) if !few.may_have_happened), "{few}");
        assert!(matches!(of_store(unreachable("why")), StoreError::Unreachable { .. }));
        let few = of_upload(Asked::write(TWO_OF_THREE).timed_out(Duration::from_secs(5)));
        assert!(!few.may_have_happened(), "no row was sent: {few}");
    }

    /// It did not say that there were too many tombstones, which is what somebody has to know.
    #[test]
    fn why_nodes_cannot_is_told_in_their_words() {
        let consistency = Consistency::Quorum;
        let (received, required, numfailures) = (0, 2, 1);
        let read = DbError::ReadFailure { consistency, received, required, numfailures, data_present: false };
        let write_type = WriteType::Simple;
        let write = DbError::WriteFailure { consistency, received, required, numfailures, write_type };
        let words = format!("READ_TOO_MANY_TOMBSTONES\nfrom /127.0.0.1:7000 {}", "…".repeat(5_000));
        for (asked, error) in [(Asked::read(TWO_OF_THREE), read), (Asked::write(TWO_OF_THREE), write)] {
            let attempt = RequestAttemptError::DbError(error, words.clone());
            let failed = asked.failed(&ExecutionError::LastAttemptError(attempt), Tried::default());
            let text = failed.to_string();
            assert!(text.contains(": READ_TOO_MANY_TOMBSTONES from /127.0.0.1:7000 …"), "{text}");
            assert!(text.chars().count() < 2 * WORDS_CHARS_MAX, "{text}");
            assert_eq!(text.ends_with("may have happened"), asked.is_write, "{text}");
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_told_from_what_is_invalid() {
        let refused = |words: &str| {
            let attempt = RequestAttemptError::DbError(DbError::Invalid, words.to_owned());
            Asked::write(TWO_OF_THREE).failed(&ExecutionError::LastAttemptError(attempt), Tried::default())
        };
        let full =
            refused("Guardrail violated: Write request failed because disk usage exceeds failure threshold");
        assert!(matches!(full, Error::Store(StoreError::NoRoom { .. })), "{full}");
        let other = refused("unconfigured table entities");
        assert!(matches!(other, Error::Store(StoreError::Unreachable { .. })), "{other}");
    }

    #[test]
    fn what_may_pass_is_not_a_failure_of_replicas() {
        for error in [DbError::Overloaded, DbError::IsBootstrapping, DbError::Invalid, DbError::Unauthorized]
        {
            let error = told(Asked::read(TWO_OF_THREE), error);
            assert!(matches!(error, Error::Store(StoreError::Unreachable { .. })), "{error}");
        }
        let empty = Asked::write(TWO_OF_THREE).failed(&ExecutionError::EmptyPlan, Tried::default());
        assert!(matches!(empty, Error::Store(StoreError::Unreachable { .. })), "{empty}");
    }

    /// Who repeated an increment after it added twice.
    #[test]
    fn a_write_whose_answer_says_nothing_of_it_may_have_happened() {
        let limited = |rejected_by_coordinator| DbError::RateLimitReached {
            op_type: OperationType::Write,
            rejected_by_coordinator,
        };
        for error in [
            DbError::ServerError,
            DbError::TruncateError,
            DbError::Overloaded,
            DbError::Other(0x1700),
            limited(false),
        ] {
            let write = told(Asked::write(TWO_OF_THREE), error.clone());
            assert!(matches!(&write, Error::TooFewReplicas(few) if few.may_have_happened), "{write}");
            let read = told(Asked::read(TWO_OF_THREE), error);
            assert!(matches!(read, Error::Store(StoreError::Unreachable { .. })), "{read}");
        }
        for error in [DbError::IsBootstrapping, DbError::Invalid, DbError::Unauthorized, limited(true)] {
            let write = told(Asked::write(TWO_OF_THREE), error);
            assert!(matches!(write, Error::Store(StoreError::Unreachable { .. })), "{write}");
        }
        let of = |asked: Asked, attempt| {
            asked.failed(&ExecutionError::LastAttemptError(attempt), Tried::default())
        };
        let write = of(Asked::write(TWO_OF_THREE), RequestAttemptError::NonfinishedPagingState);
        assert!(matches!(&write, Error::TooFewReplicas(few) if few.may_have_happened), "{write}");
        for (asked, attempt) in [
            (Asked::read(TWO_OF_THREE), RequestAttemptError::NonfinishedPagingState),
            (Asked::write(TWO_OF_THREE), RequestAttemptError::UnableToAllocStreamId),
        ] {
            let told = of(asked, attempt);
            assert!(matches!(told, Error::Store(StoreError::Unreachable { .. })), "{told}");
        }
    }

    #[test]
    fn a_dead_node_after_an_answer_does_not_hide_it() {
        let consistency = Consistency::Quorum;
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        let answered = || Some((unavailable.clone(), "words".to_owned()));
        let of = |asked: Asked, tried| asked.failed(&ExecutionError::EmptyPlan, tried);
        let read = of(Asked::read(TWO_OF_THREE), Tried { answered: answered(), ..Tried::default() });
        assert!(matches!(read, Error::TooFewReplicas(few) if !few.may_have_happened && few.required == 2));
        let unknown = || Some("the connection broke".to_owned());
        let full = Some((DbError::Invalid, format!("{QUOTA} words")));
        for answered in [answered(), None, full, Some((DbError::Overloaded, "words".to_owned()))] {
            let write = of(Asked::write(TWO_OF_THREE), Tried { answered, unknown: unknown(), open: 0 });
            assert!(matches!(&write, Error::TooFewReplicas(few) if few.may_have_happened), "{write}");
        }
        let read = of(Asked::read(TWO_OF_THREE), Tried { unknown: unknown(), ..Tried::default() });
        assert!(matches!(read, Error::Store(StoreError::Unreachable { .. })), "{read}");
    }

    /// The first node was slow, so a second one was asked, and its refusal was told as if nothing had happened: who repeated the write
    /// wrote over what others had written by then.
    #[test]
    fn a_write_that_a_node_is_still_at_may_have_happened_whatever_another_one_says() {
        let consistency = Consistency::Quorum;
        let quota = format!("{QUOTA} words");
        for (error, words) in [
            (DbError::Invalid, "words"),
            (DbError::Invalid, &quota),
            (DbError::Unauthorized, "words"),
            (DbError::Unavailable { consistency, required: 2, alive: 1 }, "words"),
        ] {
            let of = |asked: Asked, open| {
                let attempt = RequestAttemptError::DbError(error.clone(), words.to_owned());
                asked.failed(&ExecutionError::LastAttemptError(attempt), Tried { open, ..Tried::default() })
            };
            let may_have_happened =
                |told: &Error| matches!(told, Error::TooFewReplicas(few) if few.may_have_happened);
            for (asked, open) in [
                (Asked::write(TWO_OF_THREE), 1),
                (Asked::write(TWO_OF_THREE), 0),
                (Asked::read(TWO_OF_THREE), 1),
            ] {
                let told = of(asked, open);
                assert_eq!(may_have_happened(&told), asked.is_write && open > 0, "{told}");
            }
        }
    }
}
