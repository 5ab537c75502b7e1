use std::rc::Rc;
use std::time::Duration;

use ladoga_http1::server::Request;
use ladoga_http1::{StatusCode, Version};
use ladoga_service::{ChangePiece, Follower, KeySpan, KeyValue};
use tokio::time::Instant;

use super::call::{Call, Outcome, Reply};
use crate::connection::{Following, Next, NoPlace, check_follower, stream_permit, wait_for_more};
use crate::http::{Answer, ChangeLines, ChangesTarget, Field, Framing, JsonChanges, NDJSON, Refusal};

/// `GET` of changes: a stream, or one answer for who prefers to wait for it.
pub(super) fn changes<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let ChangesTarget { followed, has_values, is_events, wait_s } =
        ChangesTarget::parse(request).map_err(Refusal::bad_request)?;
    call.check_span(&followed.span)?;
    let is_events = is_events && wait_s.is_none();
    let framing = if request.version == Version::HTTP_11 { Framing::Chunked } else { Framing::Plain };
    let lines = ChangeLines { framing, is_events };
    let span = followed.span.clone();
    let follower = call.service()?.follow(followed, Box::new(JsonChanges { is_events, has_values }));
    let (door, link) = (Rc::clone(call.door), Rc::clone(call.link));
    Ok(Reply::later(async move {
        let follower = follower.await?;
        match wait_s {
            None => Ok(Outcome::Follow(Following { follower, span, lines })),
            Some(wait_s) => {
                let until = Instant::now() + Duration::from_secs(wait_s);
                one_batch(&Call { door: &door, link: &link, waited_ms: 0 }, (follower, span), until).await
            }
        }
    }))
}

/// The first changes that there are, unless none come in time.
async fn one_batch<K: KeyValue>(
    call: &Call<'_, K>,
    (mut follower, span): (Box<dyn Follower>, KeySpan),
    until: Instant,
) -> Result<Outcome, Refusal> {
    let Call { door, link, .. } = call;
    let mut next = None;
    loop {
        let permit = match stream_permit(&door.core, link, &door.streams, Some(until)).await {
            Ok(permit) => permit,
            Err(why) => return without_place(why, next).map(Outcome::Answer),
        };
        check_follower(link, &span)?;
        let (ChangePiece { bytes, token, is_all }, rest) = follower.next().await?;
        drop(permit);
        follower = rest;
        next = token.or(next);
        if !bytes.is_empty() {
            return Ok(Outcome::Answer(live(Answer::content(NDJSON, bytes), next)));
        }
        if !is_all {
            tokio::task::yield_now().await;
            continue;
        }
        // Who does not wait may have closed its side already.
        let waited = if Instant::now() < until {
            wait_for_more(&door.core, link, (&mut *follower, &span), until).await
        } else {
            Next::Silence
        };
        match waited {
            Next::More => {}
            Next::Silence | Next::Drain => {
                return Ok(Outcome::Answer(live(Answer::empty(StatusCode::NOT_MODIFIED), next)));
            }
            Next::Revoked(refusal) => return Err(refusal),
            Next::Left => return Err(NoPlace::Left.into()),
        }
    }
}

/// Who has no place is refused. One that has looked through a part of the changes gets an empty batch, with where to go on: it would never
/// come to the end if it began anew each time. That nothing has changed is not known.
fn without_place(why: NoPlace, next: Option<Box<str>>) -> Result<Answer, Refusal> {
    match why {
        NoPlace::Full(_) if next.is_some() => Ok(live(Answer::content(NDJSON, Vec::new()), next)),
        why => Err(why.into()),
    }
}

/// One batch of changes, or that there are none, with where to go on.
fn live(answer: Answer, next: Option<Box<str>>) -> Answer {
    Answer { field: next.map(|token| Field::new("ladoga-next", token)), is_live: true, ..answer }
}

#[cfg(test)]
mod tests {
    use ladoga_runtime::{Address, Gate};

    use super::*;

    #[test]
    fn who_gets_no_place_goes_on_behind_what_was_looked_through() {
        let gate = Gate::new(1, 0, "places", std::sync::Arc::new(ladoga_env::sim::SimClock::new()));
        let _held = gate.enter(Address::of_client(None), 1).expect("room");
        let full = || NoPlace::Full(gate.enter(Address::of_client(None), 1).expect_err("it is taken"));
        let refused = without_place(full(), None).err().expect("nothing was looked through");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        let Ok(answer) = without_place(full(), Some("token".into())) else { panic!("an answer") };
        assert_eq!(answer.status, StatusCode::OK, "there may be changes behind it");
        assert!(answer.field.is_some_and(|field| format!("{field:?}").contains("token")));
        assert!(without_place(NoPlace::Left, Some("token".into())).is_err());
    }
}
