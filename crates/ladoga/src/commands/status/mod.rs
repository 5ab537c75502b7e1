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

use super::cluster::{ClusterReport, ask, report, table, text_of};
use super::{Failure, node_url, output_of_work};
use crate::client::Url;
use crate::status_arguments::StatusArguments;

/// Prints how a node is: whether it would serve a request now, and if it belongs to a cluster, the state of that as this node sees it; or
/// what it does.
pub(crate) fn status(arguments: &StatusArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    if arguments.hot {
        return hot::hot(&url);
    }
    if arguments.live {
        return live(&url);
    }
    if let Some(seconds) = arguments.watch {
        return watch::watch(&url, seconds);
    }
    let response = ask(&url, "/v0/status")?;
    if response.status != 200 {
        return Err(Failure::refused(response));
    }
    let serving = response.serving()?;
    // It serves as soon as it has opened its directory; a request may still find too few nodes.
    let ready = ask(&url, "/readyz")?;
    let (state, why_not) = match ready.status {
        200 => {
            ready.ready()?;
            (serving, None)
        }
        503 => ("not ready".to_owned(), Some(ready.refusal())),
        _ => return Err(Failure::refused(ready)),
    };
    let mut out = output_of_work();
    writeln!(out, "{url}: {state}")?;
    match report(&url)? {
        ClusterReport::Of(report) => out.write_all(table(&report).as_bytes())?,
        // It serves all the same.
        ClusterReport::Refused(why) => writeln!(out, "  {why}")?,
        ClusterReport::Alone => {}
    }
    match why_not {
        None => Ok(()),
        Some(why_not) => Err(Failure::Failed(why_not)),
    }
}

/// Prints whether a node lives, whether or not it would serve a request.
fn live(url: &Url) -> Result<(), Failure> {
    let said = get(url, "/livez")?;
    writeln!(output_of_work(), "{url}: {}", said.trim_end())?;
    Ok(())
}

/// What a node answers to `GET` of a path, which has to succeed.
fn get(url: &Url, path: &str) -> Result<String, Failure> {
    let response = ask(url, path)?;
    if response.status != 200 {
        return Err(Failure::refused(response));
    }
    text_of(response, url)
}
