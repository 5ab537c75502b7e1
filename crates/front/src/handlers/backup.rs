use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_http1::server::Request;
use ladoga_runtime::Operation;
use ladoga_service::{BackupAnswer, KeySpan, KeyValue};

use super::call::{Call, Outcome, Reply};
use crate::http::{Answer, Refusal, backup_step, begun_json, log_json};

/// A step of a backup. It is about all keys, so a token that is for some of them is not enough, whatever its scopes.
pub(super) fn backup<K: KeyValue>(
    call: &Call<'_, K>,
    operation: Operation,
    request: &Request,
) -> Result<Reply, Refusal> {
    call.check_span(&KeySpan { start: Bytes::new(), end: None, is_reverse: false })?;
    let step = backup_step(operation, request.query()).map_err(Refusal::bad_request)?;
    let answered = call.service()?.backup(step);
    Ok(Reply::later(async move {
        let answer = match answered.await? {
            BackupAnswer::Begun(begun) => {
                let json = Answer::content("application/json", begun_json(&begun));
                Answer { status: StatusCode::CREATED, ..json }
            }
            BackupAnswer::Log(log) => Answer::content("application/json", log_json(&log)),
            BackupAnswer::Bytes(bytes) => Answer::value(bytes),
            BackupAnswer::Ended => Answer::empty(StatusCode::ACCEPTED),
        };
        Ok(Outcome::Answer(answer))
    }))
}
