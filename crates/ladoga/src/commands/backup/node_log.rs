use ladoga_backup::{Error, LogListing, LogSource, Member, PIECE_BYTES_MAX};
use ladoga_storage::{KeptSegment, LogFile};
use serde_json::Value;

use super::checkpoint::Place;
use super::paced::Pace;
use crate::client::{ClientError, KeptConnection, Url};

/// What a node says of the log that it keeps.
pub(super) struct Told {
    pub(super) listing: LogListing,
    /// Which node of which cluster it is, if it is of one.
    pub(super) place: Option<Place>,
}

/// The log that a node keeps.
pub(super) struct NodeLog<'c> {
    url: Url,
    connection: KeptConnection,
    pace: Pace<'c>,
}

impl<'c> NodeLog<'c> {
    pub(super) fn new(url: &Url, pace: Pace<'c>) -> NodeLog<'c> {
        NodeLog { url: url.clone(), connection: KeptConnection::new(url.clone()), pace }
    }
}

/// Up to when a node has everything in its log now, and what it is in its cluster, if it is of one.
pub(super) fn begin(url: &Url) -> Result<Told, Error> {
    told((url, &mut KeptConnection::new(url.clone())), u64::MAX)
}

fn told((url, connection): (&Url, &mut KeptConnection), after: u64) -> Result<Told, Error> {
    let body = ask((url, connection), "POST", &format!("/v0/backup?log_after={after}"))?;
    let wrong = || {
        let (found, expected) = ("an answer of another kind".to_owned(), "a list of its log");
        Error::Source(ClientError::NotANode { url: url.clone(), found, expected }.to_string())
    };
    parse(&body).ok_or_else(wrong)
}

fn ask((url, connection): (&Url, &mut KeptConnection), method: &str, target: &str) -> Result<Vec<u8>, Error> {
    let asked = connection.ask(method, target);
    let answered = asked.map_err(|error| Error::Source(error.to_string()))?;
    match answered.status {
        200 => Ok(answered.body),
        // One of an earlier release makes a checkpoint, whatever else it is asked for. It is released when nobody reads it.
        201 => Err(Error::Source(format!("{url} is of a release that keeps no log"))),
        404 if method == "GET" => Err(Error::Absent(answered.refusal(url))),
        500 if method == "GET" => Err(Error::Unreadable(answered.refusal(url))),
        _ => Err(Error::Source(answered.refusal(url))),
    }
}

impl LogSource for NodeLog<'_> {
    fn list(&mut self, after: u64) -> Result<LogListing, Error> {
        told((&self.url, &mut self.connection), after).map(|told| told.listing)
    }

    fn read(&mut self, file: LogFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let (file, bytes) = (file.name(), bytes_max.min(PIECE_BYTES_MAX));
        let target = format!("/v0/backup?file={file}&offset={offset}&bytes={bytes}");
        self.pace.read(|| ask((&self.url, &mut self.connection), "GET", &target))
    }
}

fn parse(body: &[u8]) -> Option<Told> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let number = |json: &Value, name: &str| json[name].as_str()?.parse::<u64>().ok();
    let segment = |json: &Value| {
        let (first_sequence, end_sequence) = (number(json, "first_sequence")?, number(json, "end_sequence")?);
        let segment =
            KeptSegment { number: json["number"].as_u64()?, first_sequence, end_sequence, kept_ms: 0 };
        (first_sequence < end_sequence).then_some(segment)
    };
    let store = json["store"].as_str().filter(|text| text.len() == 32)?;
    let place = match &json["cluster"] {
        Value::Null => None,
        cluster => Some((Place::parse(cluster)?, member(cluster)?)),
    };
    let listing = LogListing {
        store: u128::from_str_radix(store, 16).ok()?,
        reaches_ms: json["reaches_ms"].as_u64()?,
        end_sequence: number(&json, "end_sequence")?,
        segments: json["segments"].as_array()?.iter().map(segment).collect::<Option<_>>()?,
        member: place.as_ref().map(|(_, member)| *member),
    };
    Some(Told { listing, place: place.map(|(place, _)| place) })
}

fn member(json: &Value) -> Option<Member> {
    let incarnation = json["incarnation"].as_str()?.parse().ok()?;
    Some(Member { incarnation, is_whole: json["complete"].as_bool()? })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// As long as such a segment was kept, each attempt to fetch the log ended there.
    #[test]
    fn what_a_node_cannot_read_is_no_fault_of_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let url = Url::parse(&url).expect("a URL");
        let statuses = ["500 Internal Server Error", "404 Not Found", "503 Service Unavailable"];
        let answers = thread::spawn(move || {
            for status in statuses {
                let mut socket = BufReader::new(listener.accept().expect("a client").0);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    socket.read_line(&mut line).expect("a head");
                }
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                socket.get_mut().write_all(answer.as_bytes()).expect("a client that reads");
            }
        });
        let env = ladoga_env::real::env().expect("a system");
        let mut log = NodeLog::new(&url, Pace::new(&*env.clock, None));
        let mut read = || log.read(LogFile::Segment(1), 0, 1).expect_err("it is refused");
        assert!(matches!(read(), Error::Unreadable(_)));
        assert!(matches!(read(), Error::Absent(_)));
        assert!(matches!(read(), Error::Source(_)));
        answers.join().expect("three answers");
    }

    #[test]
    fn what_a_node_says_of_its_log_is_read_or_refused() {
        let listed = |segments: &str| {
            let store = "0".repeat(31) + "7";
            let head = format!("{{\"store\":\"{store}\",\"reaches_ms\":5,\"end_sequence\":\"9\"");
            parse(format!("{head},\"segments\":[{segments}]}}").as_bytes())
        };
        let segment = "{\"number\":3,\"first_sequence\":\"1\",\"end_sequence\":\"9\"}";
        let expected = KeptSegment { number: 3, first_sequence: 1, end_sequence: 9, kept_ms: 0 };
        let Told { listing, place } = listed(segment).expect("a listing");
        assert_eq!((listing.member, place), (None, None));
        assert_eq!((listing.store, listing.reaches_ms, listing.end_sequence), (7, 5, 9));
        assert_eq!(listing.segments, [expected]);
        assert_eq!(listed("").expect("a listing").listing.segments, []);
        for wrong in ["{}", &segment.replace("\"9\"", "\"1\""), &segment.replace("\"9\"", "9"), "7"] {
            assert!(listed(wrong).is_none(), "{wrong}");
        }
        assert!(parse(b"").is_none());
        let of_cluster = |cluster: &str| {
            let head =
                "{\"store\":\"00000000000000000000000000000007\",\"reaches_ms\":5,\"end_sequence\":\"9\"";
            parse(format!("{head},\"segments\":[],\"cluster\":{cluster}}}").as_bytes())
        };
        let part = "{\"nodes\":[\"http://a\",\"http://b\"],\"own\":1,\"complete\":true,\"incarnation\":\"18446744073709551615\"}";
        let told = of_cluster(part).expect("a listing");
        assert_eq!(told.listing.member, Some(Member { incarnation: u64::MAX, is_whole: true }));
        let nodes = vec!["http://a".to_owned(), "http://b".to_owned()];
        assert_eq!(told.place, Some(Place { nodes, own: 1 }));
        for (right, wrong) in [("\"own\":1", "\"own\":2"), ("true", "1"), ("\"incarnation\"", "\"other\"")] {
            assert!(of_cluster(&part.replace(right, wrong)).is_none(), "{wrong}");
        }
    }
}
