//! Values that are too large for a line: each is read and stored by a request of its own.

use std::sync::{Mutex, PoisonError};

use ladoga_env::Clock;
use ladoga_model::VALUE_BYTES_MAX;
use ring::digest::{Context, Digest, SHA256};

use super::super::Failure;
use super::super::patience::{Attempts, Patience, SILENCE_MAX, Trouble};
use super::super::record::LargeRecord;
use super::Sides;
use super::stored::Stored;
use crate::client::{ClientError, Request, Response, Url, percent_encoded};

/// Held by who has such a value in memory: so there is one at a time.
static IN_MEMORY: Mutex<()> = Mutex::new(());

/// Copies the value of this key.
pub(super) fn copy_value(sides: &Sides, key: &[u8], clock: &dyn Clock) -> Result<Stored, Failure> {
    let _held = IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((value, expires_ms)) = repeatedly(sides.patience, || read(&sides.from, key))? else {
        // It was deleted since then.
        return Ok(Stored::default());
    };
    let record = LargeRecord { key: key.to_vec(), value, expires_ms, ..LargeRecord::default() };
    put_again(&sides.to, &record, (clock, &mut sides.patience.begin()))
}

/// Stores a value, and tries again as long as that may help and it has not expired.
pub(super) fn put_again(
    to: &Url,
    record: &LargeRecord,
    (clock, attempts): (&dyn Clock, &mut Attempts),
) -> Result<Stored, Failure> {
    while let Some(request) = record.put(clock.wall_ms()) {
        let trouble = match request.send_with_patience(to, Some(SILENCE_MAX)) {
            Ok(response) if response.status == 201 => match response.check_done() {
                Ok(()) => {
                    attempts.succeeded();
                    return Ok(Stored { records: 1, expired: 0 });
                }
                Err(error) => error.into(),
            },
            Ok(response) => about(&record.key, Trouble::refused(response)),
            Err(error) => error.into(),
        };
        attempts.failed(trouble)?;
    }
    Ok(Stored { records: 0, expired: 1 })
}

fn about(key: &[u8], trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Lasting(Failure::Failed(reason)) => {
            Trouble::Lasting(Failure::Failed(format!("'{}': {reason}", key.escape_ascii())))
        }
        other => other,
    }
}

fn repeatedly<T>(patience: Patience, mut attempt: impl FnMut() -> Result<T, Trouble>) -> Result<T, Failure> {
    let mut attempts = patience.begin();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(trouble) => attempts.failed(trouble)?,
        }
    }
}

/// A value, and when it expires if it does.
type Mortal = (Vec<u8>, Option<u64>);

/// What a key has; none if there is nothing.
fn read(from: &Url, key: &[u8]) -> Result<Option<Mortal>, Trouble> {
    let Some(response) = get(from, key)? else { return Ok(None) };
    let expires_ms = expires_ms(&response)?;
    let mut value = Vec::new();
    response.body(|piece| {
        if value.len() as u64 + piece.len() as u64 > VALUE_BYTES_MAX {
            return Err(Trouble::Lasting(Failure::Failed(format!(
                "'{}' has more than {VALUE_BYTES_MAX} bytes in {from}",
                key.escape_ascii()
            ))));
        }
        value.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(Some((value, expires_ms)))
}

fn get(url: &Url, key: &[u8]) -> Result<Option<Response>, Trouble> {
    let target = format!("/v0/entity?id={}", percent_encoded(key));
    let request = Request { method: "GET", target, fields: Vec::new(), body: None };
    let response = request.send_with_patience(url, Some(SILENCE_MAX))?;
    match response.status {
        200 => {
            response.check_value()?;
            Ok(Some(response))
        }
        404 => {
            response.check_absent()?;
            Ok(None)
        }
        _ => Err(Trouble::refused(response)),
    }
}

fn expires_ms(response: &Response) -> Result<Option<u64>, Failure> {
    let Some(text) = response.header("ladoga-expires") else { return Ok(None) };
    let wrong = || Failure::Failed(format!("Ladoga-Expires is '{text}', expected milliseconds since 1970"));
    text.parse().map(Some).map_err(|_| wrong())
}

/// The SHA-256 of a value; none if there is none.
pub(super) fn digest(url: &Url, key: &[u8], patience: Patience) -> Result<Option<Digest>, Failure> {
    repeatedly(patience, || {
        let Some(response) = get(url, key)? else { return Ok(None) };
        let mut context = Context::new(&SHA256);
        response.body(|piece| {
            context.update(piece);
            Ok::<_, ClientError>(())
        })?;
        Ok(Some(context.finish()))
    })
}
