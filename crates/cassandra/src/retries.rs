//! What the attempts of a request came to. The driver answers with the error of the last one, and that may only be that the next node is
//! dead: what a node said before is worth more.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{DefaultRetryPolicy, RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use tokio::task::futures::TaskLocalFuture;

/// A request, and beside it what its attempts come to.
pub(crate) type Noted<F> = TaskLocalFuture<RefCell<Tried>, F>;

tokio::task_local! {
    /// Of the request that is under way. The driver asks about retries while it is polled.
    static TRIED: RefCell<Tried>;
}

/// What came of attempts before the last one.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// What a node answered last.
    pub(crate) answered: Option<(DbError, String)>,
    /// Why it is unknown whether an attempt did what it was to do, of the first one.
    pub(crate) unknown: Option<String>,
    /// How many attempts have not ended: the driver goes by the first one that does, although another node may do the work still.
    pub(crate) open: u32,
}

impl Tried {
    /// A request that notes what its attempts come to. It is not much larger than without: futures are on the stack.
    pub(crate) fn noted<F: Future>(request: F) -> Noted<F> {
        TRIED.scope(RefCell::default(), request)
    }

    /// What those of a request that has ended have come to.
    pub(crate) fn of<F: Future>(request: Pin<&mut Noted<F>>) -> Tried {
        request.take_value().map(RefCell::into_inner).unwrap_or_default()
    }

    /// An attempt of the request that is under way begins. Requests of the driver's own have nobody who wants to know.
    pub(crate) fn begin_attempt() {
        _ = TRIED.try_with(|tried| tried.borrow_mut().open += 1);
    }

    pub(crate) fn end_attempt() {
        _ = TRIED.try_with(|tried| tried.borrow_mut().open -= 1);
    }

    /// Why it is unknown whether an attempt did what it was to do, if it is.
    pub(crate) fn into_unknown(self) -> Option<String> {
        let open = || (self.open > 0).then(|| "a node that was asked has not answered".to_owned());
        self.unknown.or_else(open)
    }

    fn note(&mut self, error: &RequestAttemptError) {
        if let RequestAttemptError::DbError(error, words) = error {
            self.answered = Some((error.clone(), words.clone()));
        }
        if let Some(why) = unknown(error) {
            self.unknown.get_or_insert(why);
        }
    }
}

/// Why it is unknown whether an attempt did what it was to do, if it is.
pub(crate) fn unknown(error: &RequestAttemptError) -> Option<String> {
    match error {
        RequestAttemptError::BrokenConnectionError(broken) => Some(format!("the connection broke: {broken}")),
        RequestAttemptError::DbError(error, words) => unknown_of_answer(error, words),
        RequestAttemptError::BodyExtensionsParseError(_)
        | RequestAttemptError::CqlResultParseError(_)
        | RequestAttemptError::CqlErrorParseError(_)
        | RequestAttemptError::UnexpectedResponse(_)
        | RequestAttemptError::NonfinishedPagingState => Some(format!("its answer cannot be read: {error}")),
        // It was not asked, or said that it does not know the statement.
        _ => None,
    }
}

/// The same of what a node answered.
pub(crate) fn unknown_of_answer(error: &DbError, words: &str) -> Option<String> {
    match error {
        DbError::WriteTimeout { .. } | DbError::WriteFailure { .. } => Some(error.to_string()),
        // It may be from the middle of the work, or from another node that had a part in it: Cassandra is overloaded by too many hints,
        // say, which it counts once a lightweight transaction is agreed on.
        DbError::ServerError
        | DbError::TruncateError
        | DbError::Overloaded
        | DbError::RateLimitReached { rejected_by_coordinator: false, .. }
        | DbError::Other(_) => Some(format!("{error}: {words}")),
        _ => None,
    }
}

/// So often is a request made again, however many nodes there are: what one has no time for, all others need not be burdened with.
const RETRIES_MAX: u32 = 2;

/// Decides as the driver does, which may go on to the last node, but not that often; and notes what came of each attempt.
#[derive(Debug)]
pub(crate) struct NotedRetries(DefaultRetryPolicy);

impl NotedRetries {
    pub(crate) fn policy() -> Arc<dyn RetryPolicy> {
        Arc::new(NotedRetries(DefaultRetryPolicy::new()))
    }
}

impl RetryPolicy for NotedRetries {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(NotedSession { of_driver: self.0.new_session(), retries: 0 })
    }
}

struct NotedSession {
    of_driver: Box<dyn RetrySession>,
    retries: u32,
}

impl NotedSession {
    fn bounded(&mut self, decision: RetryDecision) -> RetryDecision {
        let is_retry =
            matches!(decision, RetryDecision::RetrySameTarget(_) | RetryDecision::RetryNextTarget(_));
        self.retries += u32::from(is_retry);
        if is_retry && self.retries > RETRIES_MAX { RetryDecision::DontRetry } else { decision }
    }
}

impl RetrySession for NotedSession {
    fn decide_should_retry(&mut self, request_info: RequestInfo<'_>) -> RetryDecision {
        // Requests of the driver's own have nobody who wants to know.
        _ = TRIED.try_with(|tried| tried.borrow_mut().note(request_info.error));
        let decision = self.of_driver.decide_should_retry(request_info);
        self.bounded(decision)
    }

    fn reset(&mut self) {
        self.of_driver.reset();
        self.retries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_that_says_nothing_of_a_write_is_remembered() {
        let mut tried = Tried::default();
        tried.note(&RequestAttemptError::DbError(DbError::IsBootstrapping, "soon".to_owned()));
        tried.note(&RequestAttemptError::UnableToAllocStreamId);
        assert_eq!(tried.unknown, None);
        tried.note(&RequestAttemptError::DbError(DbError::ServerError, "a bug".to_owned()));
        tried.note(&RequestAttemptError::NonfinishedPagingState);
        assert!(tried.unknown.is_some_and(|why| why.ends_with("a bug")));
        assert!(matches!(tried.answered, Some((DbError::ServerError, _))));
        let mut tried = Tried::default();
        tried.note(&RequestAttemptError::NonfinishedPagingState);
        assert!(tried.unknown.is_some() && tried.answered.is_none());
    }

    /// Each node of a cluster that was overloaded got each request.
    #[test]
    fn a_request_is_made_no_more_than_three_times() {
        let of_driver = DefaultRetryPolicy::new().new_session();
        let mut session = NotedSession { of_driver, retries: 0 };
        for _ in 0..2 {
            for retry in [RetryDecision::RetryNextTarget(None), RetryDecision::RetrySameTarget(None)] {
                assert_eq!(session.bounded(retry.clone()), retry);
            }
            for decision in [RetryDecision::RetryNextTarget(None), RetryDecision::DontRetry] {
                assert_eq!(session.bounded(decision), RetryDecision::DontRetry);
            }
            session.reset();
        }
    }
}
