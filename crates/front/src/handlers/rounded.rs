use ladoga_model::Replicas;
use ladoga_service::KeyValue;

use super::call::{Call, Outcome, Reply};
use crate::http::Field;

/// By how many replicas a request is served, if these are not those that it asks for.
const FIELD: &str = "ladoga-replicas";

/// Tells it, in the header of the answer.
pub(super) fn tell_rounded<K: KeyValue>(call: &Call<'_, K>, asked: Replicas, reply: Reply) -> Reply {
    let Ok(service) = call.service() else { return reply };
    let waits_for = service.waits_for(asked);
    if waits_for == asked {
        return reply;
    }
    match reply {
        Reply::Now(outcome) => Reply::Now(told(outcome, waits_for)),
        Reply::Later(outcome) => {
            Reply::later(async move { Ok(told(outcome.await.unwrap_or_else(Outcome::from), waits_for)) })
        }
    }
}

fn told(mut outcome: Outcome, Replicas { ack, from }: Replicas) -> Outcome {
    let place = match &mut outcome {
        Outcome::Answer(answer) => &mut answer.field,
        Outcome::Stream(streamed) => &mut streamed.field,
        Outcome::Follow(_) | Outcome::Exchange(_) | Outcome::Peer(_) => return outcome,
    };
    place.get_or_insert_with(|| Field::new(FIELD, format!("{ack}/{from}")));
    outcome
}

#[cfg(test)]
mod tests {
    use ladoga_http1::StatusCode;

    use super::*;
    use crate::http::Answer;

    #[test]
    fn an_answer_says_how_many_were_waited_for() {
        let answer = Answer::empty(StatusCode::CREATED);
        let Outcome::Answer(answer) = told(Outcome::Answer(answer), Replicas { ack: 5, from: 5 }) else {
            panic!("it is an answer still")
        };
        let mut room = [("", &b""[..]); Answer::FIELDS_MAX];
        assert_eq!(answer.fields(&mut room), [("ladoga-replicas", &b"5/5"[..])]);
    }
}
