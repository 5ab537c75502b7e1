use std::thread;
use std::time::Duration;

/// How long a token that has used its rate is waited for at a time, at most, and how often in a row.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const IN_A_ROW_MAX: usize = 20;

/// When to ask again, by an answer that says so because the token has used its rate.
pub(super) fn pause_of(status: u16, retry_after: Option<&[u8]>) -> Option<Duration> {
    let seconds = str::from_utf8(retry_after.filter(|_| status == 429)?).ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Asks, and asks again when the answer says, if that is soon.
pub(super) fn once_admitted<A, E>(
    mut ask: impl FnMut() -> Result<A, E>,
    pause: impl Fn(&A) -> Option<Duration>,
) -> Result<A, E> {
    for _ in 0..IN_A_ROW_MAX {
        let answered = ask()?;
        match pause(&answered) {
            Some(pause) if pause <= PAUSE_MAX => thread::sleep(pause),
            _ => return Ok(answered),
        }
    }
    ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_used_its_rate_is_told_when_to_come_back() {
        assert_eq!(pause_of(429, Some(b"7")), Some(Duration::from_secs(7)));
        for (status, retry_after) in
            [(429, None), (429, Some(&b"soon"[..])), (503, Some(b"7")), (200, Some(b"7"))]
        {
            assert_eq!(pause_of(status, retry_after), None, "{status}");
        }
    }

    #[test]
    fn it_is_asked_until_it_is_answered_unless_that_takes_too_long() {
        let asked = |pauses: &[Option<Duration>]| {
            let mut pauses = pauses.iter();
            let answered = once_admitted(|| pauses.next().ok_or(()), |pause| **pause);
            (answered.copied(), pauses.len())
        };
        let (now, late) = (Some(Duration::ZERO), Some(PAUSE_MAX + Duration::from_secs(1)));
        assert_eq!(asked(&[now, now, None, None]), (Ok(None), 1));
        assert_eq!(asked(&[late, None]), (Ok(late), 1), "it is told at once");
        assert_eq!(asked(&[now; IN_A_ROW_MAX + 2]), (Ok(now), 1));
        assert_eq!(asked(&[]), (Err(()), 0));
    }
}
