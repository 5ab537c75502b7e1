use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ladoga_backup::{Error, Listing, PIECE_BYTES_MAX, Source};
use ladoga_storage::StoreFile;
use serde_json::Value;

use super::super::Failure;
use crate::client::{ClientError, KeptConnection, Url};

/// The longest list of files that is read: of millions of them.
const LISTING_BYTES_MAX: u64 = 512 << 20;

/// How often a node is told that its checkpoint is still wanted: while others are waited for, or fetched, nothing of it is read.
const WISH_EVERY: Duration = if cfg!(test) { Duration::from_millis(1) } else { Duration::from_secs(10) };

/// The copy that a node keeps for us. It is released when this is dropped; if we are killed, a minute later.
pub(super) struct Checkpoint {
    url: Url,
    connection: KeptConnection,
    id: String,
    /// Has the node keep it.
    _wished: Sender<()>,
    listing_bytes: u64,
    /// When it was complete, by the clock of the node.
    pub(super) taken_ms: u64,
    /// What it is in its cluster, if the node is of one.
    pub(super) part: Option<ClusterPart>,
    /// Where it ends in the log, if the node keeps its log: the store, and the first group that may not be in it.
    pub(super) log: Option<(u128, u64)>,
}

/// What a node says about itself and its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterPart {
    pub(super) place: Place,
    pub(super) is_whole: bool,
    pub(super) synced_before: u64,
    pub(super) dropped_before: u64,
    /// Which of the directories that the node has had this is; of an earlier release, it does not say.
    pub(super) incarnation: Option<u64>,
}

/// Which node of which cluster one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) nodes: Vec<String>,
    pub(super) own: usize,
}

impl Checkpoint {
    pub(super) fn begin(url: &Url) -> Result<Checkpoint, Failure> {
        let mut connection = KeptConnection::new(url.clone());
        let answered = connection.ask("POST", "/v0/backup")?;
        if answered.status != 201 {
            return Err(Failure::Failed(answered.refusal(url)));
        }
        let begun = parse(&answered.body);
        let Some((id, listing_bytes, taken_ms, (part, log))) = begun else {
            let (found, expected) = ("an answer of another kind".to_owned(), "a checkpoint");
            return Err(ClientError::NotANode { url: url.clone(), found, expected }.into());
        };
        let wished = keep(url, format!("/v0/backup?id={id}&file=listing&bytes=0"));
        Ok(Checkpoint {
            url: url.clone(),
            connection,
            id,
            _wished: wished,
            listing_bytes,
            taken_ms,
            part,
            log,
        })
    }

    /// What is in it.
    pub(super) fn listing(&mut self) -> Result<Listing, Failure> {
        if self.listing_bytes > LISTING_BYTES_MAX {
            let found = self.listing_bytes;
            let text = format!("the list of files has {found} bytes, expected at most {LISTING_BYTES_MAX}");
            return Err(Failure::Failed(text));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < self.listing_bytes {
            let left = (self.listing_bytes - bytes.len() as u64).min(PIECE_BYTES_MAX as u64) as usize;
            let piece = self.bytes_of("listing", bytes.len() as u64, left)?;
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Listing::decode(&bytes)?)
    }

    fn bytes_of(&mut self, file: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let id = &self.id;
        let target = format!("/v0/backup?id={id}&file={file}&offset={offset}&bytes={bytes_max}");
        let answered = self.connection.ask("GET", &target).map_err(|error| broken(&error))?;
        match answered.status {
            200 => Ok(answered.body),
            _ => Err(Error::Source(answered.refusal(&self.url))),
        }
    }
}

/// Tells a node every few seconds that its checkpoint is wanted, until what it answers is dropped. Each node has a thread of its own,
/// for which nobody waits: one that does not answer any more holds up neither the others nor the end.
fn keep(url: &Url, wish: String) -> Sender<()> {
    let (wished, is_wished) = channel();
    let mut connection = KeptConnection::new(url.clone());
    thread::spawn(move || {
        while is_wished.recv_timeout(WISH_EVERY) == Err(RecvTimeoutError::Timeout) {
            // What goes wrong shows when its files are read.
            let _ = connection.ask("GET", &wish);
        }
    });
    wished
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        // What is not released now is released in a minute.
        self.connection.tell("DELETE", &format!("/v0/backup?id={}", self.id));
    }
}

impl Source for Checkpoint {
    fn read(&mut self, file: StoreFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        self.bytes_of(&file.path().display().to_string(), offset, bytes_max)
    }
}

fn broken(error: &ClientError) -> Error {
    Error::Source(error.to_string())
}

type Parsed = (String, u64, u64, (Option<ClusterPart>, Option<(u128, u64)>));

fn parse(body: &[u8]) -> Option<Parsed> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let id = json["id"].as_str().filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let part = match &json["cluster"] {
        Value::Null => None,
        cluster => Some(part(cluster)?),
    };
    let log = match &json["log"] {
        Value::Null => None,
        log => {
            let store = u128::from_str_radix(log["store"].as_str()?, 16).ok()?;
            Some((store, log["sequence"].as_str()?.parse().ok()?))
        }
    };
    Some((id.to_owned(), json["listing_bytes"].as_u64()?, json["taken_ms"].as_u64()?, (part, log)))
}

fn part(json: &Value) -> Option<ClusterPart> {
    let timestamp = |name: &str| json[name].as_str()?.parse().ok();
    Some(ClusterPart {
        place: Place::parse(json)?,
        is_whole: json["complete"].as_bool()?,
        synced_before: timestamp("synced_before")?,
        dropped_before: timestamp("dropped_before")?,
        incarnation: timestamp("incarnation"),
    })
}

impl Place {
    pub(super) fn parse(json: &Value) -> Option<Place> {
        let nodes: Option<Vec<String>> =
            json["nodes"].as_array()?.iter().map(|node| node.as_str().map(str::to_owned)).collect();
        let place = Place { nodes: nodes?, own: usize::try_from(json["own"].as_u64()?).ok()? };
        (place.own < place.nodes.len()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers one request, and says which it was.
    fn serve(socket: TcpStream, status: &str, body: &str) -> String {
        let mut lines = BufReader::new(socket);
        let mut first = String::new();
        lines.read_line(&mut first).expect("a request");
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line).expect("a head");
        }
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        lines.get_mut().write_all(format!("{head}{body}").as_bytes()).expect("a client that reads");
        first
    }

    /// It was released after a minute, while another node was still making its own.
    #[test]
    fn a_node_is_told_that_its_checkpoint_is_wanted_from_its_beginning_on() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let url = Url::parse(&url).expect("a URL");
        let (asked, requests) = channel();
        thread::spawn(move || {
            let begun = "{\"id\":\"7\",\"listing_bytes\":0,\"taken_ms\":1}";
            for (number, socket) in listener.incoming().enumerate() {
                let (status, body) = if number == 0 { ("201 Created", begun) } else { ("200 OK", "") };
                // The test may be over.
                let _ = asked.send(serve(socket.expect("a client"), status, body));
            }
        });
        let checkpoint = Checkpoint::begin(&url).expect("a node");
        let next = || requests.recv_timeout(Duration::from_mins(1)).expect("a request");
        assert_eq!(next(), "POST /v0/backup HTTP/1.1\r\n");
        for _ in 0..2 {
            assert_eq!(next(), "GET /v0/backup?id=7&file=listing&bytes=0 HTTP/1.1\r\n");
        }
        drop(checkpoint);
    }
}
