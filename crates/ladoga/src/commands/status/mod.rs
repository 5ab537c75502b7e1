//! How a node is.
//!
//! - `watch`: what it does, look after look; `view`: what a look shows
//! - `hot`: what clients ask it for most
//! - `samples`: its metrics, read from the text format

mod hot;
mod samples;
mod view;
mod watch;

use std::io::Write;

use super::cluster::{ask, report, table};
use super::{Failure, node_url, output};
use crate::client::{ClientError, Response, Url};
use crate::status_arguments::StatusArguments;

/// An answer about a node is no longer than this.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Prints how a node is: whether it would serve a request now, and if it belongs to a cluster, the state of that as this node sees it; or
/// what it does.
pub(crate) fn status(arguments: &StatusArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    if arguments.hot {
        return hot::hot(&url);
    }
    if let Some(seconds) = arguments.watch {
        return watch::watch(&url, seconds);
    }
    let response = ask(&url, "GET", "/v0/status")?;
    if response.status != 200 {
        return Err(Failure::refused(response));
    }
    let serving = response.serving()?;
    // It serves as soon as it has opened its directory; a request may still find too few nodes.
    let ready = ask(&url, "GET", "/readyz")?;
    let (state, why_not) = match ready.status {
        200 => {
            ready.ready()?;
            (serving, None)
        }
        503 => ("not ready".to_owned(), Some(ready.refusal())),
        _ => return Err(Failure::refused(ready)),
    };
    writeln!(output(), "{url}: {state}")?;
    if let Some(report) = report(&url)? {
        output().write_all(table(&report).as_bytes())?;
    }
    match why_not {
        None => Ok(()),
        Some(why_not) => Err(Failure::Failed(why_not)),
    }
}

/// What a node answers to `GET` of a path, which has to succeed.
fn get(url: &Url, path: &str) -> Result<String, Failure> {
    let response = ask(url, "GET", path)?;
    if response.status != 200 {
        return Err(Failure::refused(response));
    }
    text_of(response, url)
}

fn text_of(response: Response, url: &Url) -> Result<String, Failure> {
    let mut text = Vec::new();
    let mut is_all = true;
    response.body(|piece| {
        is_all = is_all && text.len() + piece.len() <= ANSWER_BYTES_MAX;
        if is_all {
            text.extend_from_slice(piece);
        }
        Ok::<_, ClientError>(())
    })?;
    if !is_all {
        let expected = format!("expected at most {} MiB", ANSWER_BYTES_MAX >> 20);
        return Err(Failure::Failed(format!("{url} sent an answer that is too long, {expected}")));
    }
    String::from_utf8(text).map_err(|_| Failure::Failed(format!("{url} sent an answer that is no text")))
}
