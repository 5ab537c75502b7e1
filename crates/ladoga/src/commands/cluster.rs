use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Failure, counted, node_url, output_of_work};
use crate::arguments::NodeArguments;
use crate::client::{ClientError, Request, Response, Url};

/// How often the progress of a repair is read.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// An answer about a node is no longer than this.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a node answers about its cluster.
pub(super) enum ClusterReport {
    Of(Value),
    /// It stands alone, as far as the cluster is ours.
    Alone,
    /// It does not say, and why.
    Refused(String),
}

/// Makes a node pull what the others have and it lacks, and shows the progress.
pub(crate) fn repair(arguments: &NodeArguments) -> Result<(), Failure> {
    let url = node_url(arguments)?;
    let session = |report: &Value| report["replica_state"]["session"].as_str().map(str::to_owned);
    let look = || report_in(request("GET", "/v0/cluster").send_once_admitted(&url)?, &url);
    let began_in = match look()? {
        ClusterReport::Of(report) => session(&report),
        ClusterReport::Alone => None,
        // Nobody would be told how the repair ends.
        ClusterReport::Refused(why) => return Err(Failure::Failed(why)),
    };
    let response = request("POST", "/v0/repair").send_once_admitted(&url)?;
    if response.status != 202 {
        return Err(Failure::refused(response));
    }
    let number = response.number("the number of the repair")?;
    let number: u64 = number.parse().map_err(|_| {
        Failure::Failed(format!(
            "{url} answered the request to repair with '{number}', expected a smaller number"
        ))
    })?;
    let (mut out, mut last) = (output_of_work(), String::new());
    loop {
        let report = match look()? {
            ClusterReport::Of(report) => report,
            ClusterReport::Alone => {
                return Err(Failure::Failed(format!("{url} is not part of a cluster")));
            }
            ClusterReport::Refused(why) => return Err(Failure::Failed(why)),
        };
        if began_in.is_some() && session(&report) != began_in {
            // It forgot the request, and counts from 0 again.
            return Err(Failure::Failed(format!(
                "{url} was restarted, or began to be rebuilt, during the repair: repeat the command"
            )));
        }
        let repair = &report["repair"];
        let line = progress(repair);
        if line != last {
            writeln!(out, "{line}")?;
            last = line;
        }
        if repair["completed"].as_u64().is_some_and(|completed| completed >= number) {
            return match shortcoming(&report) {
                None => Ok(writeln!(out, "{url}: has all data of the other nodes")?),
                Some(why) => Err(Failure::Failed(format!("the repair is not complete: {why}"))),
            };
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Why a repair that has ended does not make the node complete.
fn shortcoming(report: &Value) -> Option<String> {
    let error = report["repair"]["error"].as_str().map(str::to_owned);
    let is_complete = report["replica_state"]["complete"] != false;
    let not_counted = || "the node's answers do not count yet. `ladoga status` says why".to_owned();
    error.or_else(|| (!is_complete).then(not_counted))
}

fn request(method: &'static str, target: &str) -> Request<'static> {
    let body: Option<&[u8]> = (method == "POST").then_some(&[]);
    Request { method, target: target.to_owned(), fields: Vec::new(), body }
}

/// What a node answers to `GET` of a path.
pub(super) fn ask(url: &Url, target: &str) -> Result<Response, ClientError> {
    request("GET", target).send_in_time(url)
}

/// The node's report about its cluster.
pub(super) fn report(url: &Url) -> Result<ClusterReport, Failure> {
    report_in(ask(url, "/v0/cluster")?, url)
}

fn report_in(response: Response, url: &Url) -> Result<ClusterReport, Failure> {
    match response.status {
        // A node says 200; whether it is one shows below.
        200..=299 => {}
        // There is nothing else to be wrong with the request. A door to Cassandra says 501: the cluster is not its own.
        400 | 501 => return Ok(ClusterReport::Alone),
        _ => return Ok(ClusterReport::Refused(response.refusal())),
    }
    let report: Option<Value> = serde_json::from_str(&text_of(response, url)?).ok();
    let report = report.filter(Value::is_object);
    let other = || {
        let (found, expected) = ("an answer that is no JSON".to_owned(), "the status of a cluster");
        ClientError::NotANode { url: url.clone(), found, expected }
    };
    Ok(ClusterReport::Of(report.ok_or_else(other)?))
}

/// The body of an answer about a node, which is a text.
pub(super) fn text_of(response: Response, url: &Url) -> Result<String, Failure> {
    let mut text = Vec::new();
    response.body(|piece| {
        if text.len() + piece.len() > ANSWER_BYTES_MAX {
            let expected = format!("expected at most {} MiB", ANSWER_BYTES_MAX >> 20);
            return Err(Failure::Failed(format!("{url} sent an answer that is too long, {expected}")));
        }
        text.extend_from_slice(piece);
        Ok(())
    })?;
    String::from_utf8(text).map_err(|_| Failure::Failed(format!("{url} sent an answer that is no text")))
}

/// A line for each node, and if this one is being rebuilt, how far that is.
pub(super) fn table(report: &Value) -> String {
    let nodes = report["nodes"].as_array().into_iter().flatten();
    let mut text: String = nodes.map(node_line).collect();
    let state = &report["replica_state"];
    if state["complete"] == false && state["unverified"] == true {
        text.push_str(
            "  the data directory of this node was copied or restored: its answers do not count until each of the other nodes has \
             confirmed that no acknowledged write is missing\n",
        );
        let waits_for = state["waits_for"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let waits_for = waits_for.collect::<Vec<_>>().join(" and ");
        text.extend(["  it waits for ", &waits_for, "\n"]);
    } else if state["complete"] == false && state["lost_data"] == false && state["old_data_hidden"] != true {
        text.push_str(
            "  this node has a new data directory: before it serves, a majority of the nodes must confirm that it had none \
             before\n",
        );
    } else if state["complete"] == false && state["outdated"] == true {
        text.push_str(
            "  the data directory of this node is from before it left the list of nodes: its data are not used. Stop the node, and \
             start it with an empty directory\n",
        );
    } else if state["complete"] == false {
        let why = if state["old_data_hidden"] == true {
            "its data directory lacks acknowledged writes"
        } else {
            "it lost its data"
        };
        text.extend(["  this node is being rebuilt: ", why, ", and its answers do not count yet\n  "]);
        text.push_str(&progress(&report["repair"]));
        text.push('\n');
        if state["may_coordinate"] == false && state["displaced_at"].is_null() {
            text.push_str("  it accepts requests once all other nodes have answered, because it may have used later timestamps before\n");
        }
        text.push_str(&what_to_do(&state["waits_for"]));
    }
    if let Some(peer) = state["displaced_at"].as_str() {
        text.extend([
            "  another process runs, or ran, as this node: ",
            peer,
            " listens to that one and no longer to this one. Stop the other process, which has the same --advertise; if this line \
             stays, restart this node\n",
        ]);
    }
    text
}

/// If a node cannot be rebuilt because of others: what an operator can do about it.
fn what_to_do(waits_for: &Value) -> String {
    let waits_for: Vec<&str> = waits_for.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if waits_for.is_empty() {
        return String::new();
    }
    let them = waits_for.join(" and ");
    format!(
        "  it cannot be rebuilt without {them}: data that only these nodes had may be lost\n  \
         start the missing nodes again under the same URLs, with an empty data directory if theirs is lost; or remove them \
         for good: stop all nodes, remove the file 'nodes' from each data directory, and start them with the shorter list\n"
    )
}

fn node_line(node: &Value) -> String {
    let text = |name: &str| node[name].as_str().unwrap_or_default();
    let error = if text("error").is_empty() { String::new() } else { format!(": {}", text("error")) };
    let clock = node["clock_offset_ms"]
        .as_i64()
        .map(|offset_ms| format!(", clock {offset_ms:+} ms"))
        .unwrap_or_default();
    let hints = match node["hints_waiting"].as_u64().unwrap_or_default() {
        0 => String::new(),
        count => format!(", {} waiting", counted(count, "hint")),
    };
    let whole = if node["complete"] == false { ", rebuilding: its answers do not count yet" } else { "" };
    format!("  {}  {}{error}{clock}{hints}{whole}\n", text("url"), text("state"))
}

fn progress(repair: &Value) -> String {
    let number = |name: &str| repair[name].as_u64().unwrap_or_default();
    let differing = number("differing_partitions");
    format!(
        "{} {}, {} compared, {} copied ({} since the node was started)",
        counted(differing, "partition"),
        if differing == 1 { "differs" } else { "differ" },
        counted(number("compared_keys"), "key"),
        counted(number("copied_cells"), "cell"),
        number("copied_cells_total"),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// It was held in memory, however long it was.
    #[test]
    fn a_report_that_is_too_long_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = Url::parse(&format!("http://{}", listener.local_addr().expect("an address")));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            _ = stream.read(&mut [0; 1 << 10]);
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{";
            // The client may leave before the end.
            _ = stream.write_all(head).and_then(|()| stream.write_all(&vec![b' '; 16 << 20]));
            _ = stream.write_all(b"}");
        });
        let refused = report(&url.expect("a URL"));
        assert!(
            matches!(refused, Err(Failure::Failed(reason)) if reason.contains("expected at most 16 MiB"))
        );
        server.join().expect("it served");
    }

    #[test]
    fn a_line_says_how_a_node_is() {
        let report = serde_json::json!({
            "nodes": [
                { "url": "http://a", "state": "self" },
                { "url": "http://b", "state": "unreachable", "error": "gone", "clock_offset_ms": -3, "hints_waiting": 7 },
            ],
            "replica_state": { "complete": false, "lost_data": true },
            "repair": {
                "differing_partitions": 5, "compared_keys": 6, "copied_cells": 2, "copied_cells_total": 9,
            },
        });
        let text = table(&report);
        assert!(text.contains("  http://a  self\n"), "{text}");
        assert!(text.contains("http://b  unreachable: gone, clock -3 ms, 7 hints waiting\n"), "{text}");
        assert!(
            text.contains("rebuilt") && text.contains("5 partitions differ, 6 keys compared, 2 cells copied"),
            "{text}"
        );
        assert!(!text.contains("cannot be rebuilt"), "{text}");
    }

    /// It said that the node has all data, beside a status by which it was being rebuilt.
    #[test]
    fn a_repair_of_a_node_that_is_not_complete_has_not_succeeded() {
        let of = |complete: bool, error: Option<&str>| {
            shortcoming(&serde_json::json!({
                "replica_state": { "complete": complete }, "repair": { "error": error },
            }))
        };
        assert_eq!(of(true, None), None);
        assert!(of(false, None).is_some_and(|why| why.contains("do not count")));
        assert_eq!(of(false, Some("http://b: gone")).as_deref(), Some("http://b: gone"));
    }

    #[test]
    fn a_node_that_cannot_be_whole_says_why_and_what_to_do() {
        let report = serde_json::json!({
            "nodes": [
                { "url": "http://a", "state": "self" },
                { "url": "http://b", "state": "up", "complete": false },
                { "url": "http://c", "state": "unreachable", "error": "gone", "complete": null },
            ],
            "replica_state": {
                "complete": false, "lost_data": true, "may_coordinate": false, "waits_for": ["http://c"],
            },
            "repair": {},
        });
        let text = table(&report);
        assert!(text.contains("http://b  up, rebuilding: its answers do not count yet\n"), "{text}");
        assert!(text.contains("http://c  unreachable: gone\n"), "{text}");
        assert!(text.contains("cannot be rebuilt without http://c: "), "{text}");
        assert!(text.contains("empty data directory") && text.contains("the shorter list"), "{text}");
    }

    #[test]
    fn a_node_that_its_peers_do_not_listen_to_says_so() {
        let text = |peer: Option<&str>| {
            table(&serde_json::json!({
                "nodes": [{ "url": "http://a", "state": "self" }],
                "replica_state": { "complete": true, "displaced_at": peer },
            }))
        };
        assert!(
            text(Some("http://b")).contains("another process runs, or ran, as this node: http://b listens")
        );
        assert!(!text(None).contains("another process"));
    }

    #[test]
    fn a_node_that_its_peers_do_not_listen_to_is_not_said_to_wait_for_their_answers() {
        let text = |peer: Option<&str>| {
            table(&serde_json::json!({
                "nodes": [{ "url": "http://a", "state": "self" }],
                "replica_state": {
                    "complete": false, "lost_data": true, "may_coordinate": false, "displaced_at": peer,
                },
                "repair": {},
            }))
        };
        let waits = "it accepts requests once all other nodes have answered";
        assert!(text(None).contains(waits));
        assert!(!text(Some("http://b")).contains(waits));
    }

    #[test]
    fn a_node_that_has_not_heard_the_others_is_not_said_to_have_lost_anything() {
        let report = serde_json::json!({
            "nodes": [{ "url": "http://a", "state": "self" }],
            "replica_state": { "complete": false, "lost_data": false, "may_coordinate": false, "waits_for": ["http://b"] },
        });
        let text = table(&report);
        assert!(text.contains("new data directory") && !text.contains("lost its"), "{text}");
    }
}
