use std::future::ready;
use std::net::Ipv4Addr;
use std::pin::pin;

use futures::FutureExt;

use super::*;

/// What the attempts of a request have come to, of which so many begin, succeed and fail.
fn tried(begin: usize, succeed: usize, fail: usize) -> Tried {
    let attempts = Attempts::new();
    let node = SocketAddr::from((Ipv4Addr::LOCALHOST, 9042));
    let mut request = pin!(Tried::noted(async {
        let mut begun = (0..begin).map(|_| attempts.log_attempt_start(RequestId(0), None, node));
        let begun: Vec<_> = begun.by_ref().collect();
        let (succeeded, rest) = begun.split_at(succeed);
        succeeded.iter().for_each(|id| attempts.log_attempt_success(*id));
        for id in &rest[..fail] {
            let error = RequestAttemptError::UnableToAllocStreamId;
            attempts.log_attempt_error(*id, &error, &RetryDecision::DontRetry);
        }
        ready(()).await;
    }));
    request.as_mut().now_or_never().expect("at once");
    Tried::of(request)
}

#[test]
fn of_each_request_it_is_known_how_many_attempts_have_not_ended() {
    for (begin, succeed, fail) in [(1, 1, 0), (1, 0, 1), (2, 0, 1), (3, 1, 1), (3, 0, 3)] {
        let tried = tried(begin, succeed, fail);
        assert_eq!(tried.open as usize, begin - succeed - fail);
        assert_eq!(tried.into_unknown().is_some(), begin > succeed + fail);
    }
    // One of the driver's own.
    Attempts::new().log_attempt_success(AttemptId(0));
}
