use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use ladoga_env::{Clock, Disk, Env, OpenMode};
use parking_lot::Mutex;

use crate::{Place, S3Disk, Settings};

/// A bucket with one object, which loses the answer to one request.
#[derive(Default)]
struct Bucket {
    content: Option<Vec<u8>>,
    /// How often it was written: its tag.
    writes: u64,
    /// The request after this many more has an effect and no answer.
    loses_after: Option<u64>,
    /// Another process takes the lock over before the request after this many.
    is_stolen_after: Option<u64>,
    requests: Vec<String>,
}

impl Bucket {
    /// Status, header fields, and body; none if the answer is lost.
    fn answer(&mut self, head: &str, body: Vec<u8>) -> Option<(u16, String, Vec<u8>)> {
        let field = |name: &str| {
            let found =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
            found.map(|value| value.trim().to_owned())
        };
        let method = head.split(' ').next().unwrap_or_default();
        self.requests.push(method.to_owned());
        if self.is_stolen_after.is_some_and(|after| self.requests.len() as u64 > after) {
            (self.content, self.writes, self.is_stolen_after) = (Some(vec![b'1'; 32]), self.writes + 1, None);
        }
        let tag = format!("\"tag{}\"", self.writes);
        let refused = (412, String::new(), b"<Error><Code>PreconditionFailed</Code></Error>".to_vec());
        let is_met = field("if-none-match:").is_none_or(|_| self.content.is_none())
            && field("if-match:").is_none_or(|wanted| self.content.is_some() && wanted == tag);
        let answer = match (method, &self.content) {
            ("PUT", _) if !is_met => refused,
            ("PUT", _) => {
                (self.content, self.writes) = (Some(body), self.writes + 1);
                (200, format!("etag: \"tag{}\"\r\n", self.writes), Vec::new())
            }
            ("GET", Some(content)) => {
                let dates =
                    "date: Thu, 26 Nov 2026 12:10:00 GMT\r\nlast-modified: Thu, 26 Nov 2026 12:00:00 GMT\r\n";
                let range = format!("content-range: bytes 0-{}/{}\r\n", content.len() - 1, content.len());
                (206, format!("etag: {tag}\r\n{dates}{range}"), content.clone())
            }
            ("DELETE", _) => {
                self.content = None;
                (204, String::new(), Vec::new())
            }
            _ => (404, String::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        };
        let is_lost = self.loses_after == Some(0);
        self.loses_after = self.loses_after.and_then(|left| left.checked_sub(1));
        (!is_lost).then_some(answer)
    }
}

fn serve(stream: TcpStream, bucket: &Mutex<Bucket>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let length = head.to_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let Some((status, fields, body)) = bucket.lock().answer(&head, body) else { return Ok(()) };
    let length = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let stream = reader.get_mut();
    write!(stream, "HTTP/1.1 {status} Said\r\nconnection: close\r\n{fields}{length}\r\n")?;
    stream.write_all(&body)
}

/// A server of this bucket, until the bucket is dropped, and a disk on it.
fn disk_on(bucket: &Arc<Mutex<Bucket>>) -> S3Disk {
    disk_with(bucket, &ladoga_env::real::env().expect("an environment"))
}

fn disk_with(bucket: &Arc<Mutex<Bucket>>, env: &Env) -> S3Disk {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let served: Weak<Mutex<Bucket>> = Arc::downgrade(bucket);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), Some(bucket)) = (stream, served.upgrade()) else { return };
            // A client that goes away is none of the server's problems.
            let _ = serve(stream, &bucket);
        }
    });
    let place = Place::parse(Path::new("s3://lake/nodes")).expect("a place");
    let settings = Settings::of(|name| match name {
        "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("of no use".to_owned()),
        "AWS_REGION" => Some("us-east-1".to_owned()),
        _ => None,
    });
    S3Disk::new(env, Path::new("s3://lake/nodes"), &place, &settings.expect("settings")).expect("a disk")
}

fn left_behind(loses_after: Option<u64>) -> Arc<Mutex<Bucket>> {
    let content = Some(vec![b'0'; 32]);
    Arc::new(Mutex::new(Bucket { content, loses_after, ..Bucket::default() }))
}

#[test]
fn a_lock_is_known_as_its_own_whichever_answer_is_lost() {
    let path = Path::new("s3://lake/nodes/LOCK");
    // Of a lock that a process left behind which is gone: PUT, GET, PUT, and PUT to try the server.
    for lost in 0..4 {
        let bucket = left_behind(Some(lost));
        let disk = disk_on(&bucket);
        let lock = disk.lock(path).unwrap_or_else(|error| panic!("{lost}: {error}"));
        let content = bucket.lock().content.clone();
        assert!(content.is_some_and(|content| content != [b'0'; 32]), "{lost}: it was taken over");
        drop(lock);
        assert_eq!(bucket.lock().content, None, "{lost}: it was given back");
    }
    // And of one that nobody has: PUT, and PUT to try the server.
    for lost in 0..2 {
        let bucket = Arc::new(Mutex::new(Bucket { loses_after: Some(lost), ..Bucket::default() }));
        let disk = disk_on(&bucket);
        drop(disk.lock(path).unwrap_or_else(|error| panic!("{lost}: {error}")));
        assert_eq!(bucket.lock().content, None, "{lost}: it was given back");
    }
}

#[test]
fn a_lock_that_another_process_took_over_a_moment_before_is_not_ones_own() {
    // The first two requests find it, and that it is old.
    let bucket = left_behind(None);
    bucket.lock().is_stolen_after = Some(2);
    let disk = disk_on(&bucket);
    let refused = disk.lock(Path::new("s3://lake/nodes/LOCK")).err().expect("another process has it");
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    let bucket = bucket.lock();
    assert_eq!(bucket.content.as_deref(), Some(&[b'1'; 32][..]), "it is left to it");
    assert_eq!(bucket.requests, ["PUT", "GET", "PUT", "GET"]);
}

/// A machine that was suspended for so long: one of its clocks has not moved.
struct Suspended {
    clock: Arc<dyn Clock>,
    for_ms: Arc<AtomicU64>,
}

impl Clock for Suspended {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms() + self.for_ms.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

/// A disk that has taken the lock, which another process took over meanwhile.
fn stolen(bucket: &Arc<Mutex<Bucket>>, disk: &S3Disk) -> Box<dyn ladoga_env::Lock> {
    let lock = disk.lock(Path::new("s3://lake/nodes/LOCK")).expect("nobody has it");
    let mut bucket = bucket.lock();
    bucket.is_stolen_after = Some(bucket.requests.len() as u64);
    lock
}

/// Whoever was suspended took itself for the holder for as long as its clock said so, and removed the lock of the next one.
#[test]
fn a_lock_that_another_process_has_is_not_removed() {
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    let disk = disk_on(&bucket);
    drop(stolen(&bucket, &disk));
    assert_eq!(bucket.lock().content.as_deref(), Some(&[b'1'; 32][..]), "it is left to it");
}

/// A backup that names files which another process has swept.
#[test]
fn no_manifest_is_changed_once_another_process_has_the_lock() {
    let (new, path) = (Path::new("s3://lake/nodes/a.new"), Path::new("s3://lake/nodes/a.json"));
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    let disk = disk_on(&bucket);
    disk.open(new, OpenMode::CreateNew).expect("a file").write_all_at(b"{}", 0).expect("room");
    let _lock = stolen(&bucket, &disk);
    for changed in [disk.rename(new, path), disk.remove(path)] {
        let refused = changed.expect_err("it is another process's turn").to_string();
        assert!(refused.contains("another process has taken the lock"), "{refused}");
    }
    assert_eq!(bucket.lock().content.as_deref(), Some(&[b'1'; 32][..]), "nothing was written");
}

/// Which of that the clocks here have seen as little as a second. It removed what others may have named for half a minute.
#[test]
fn the_time_of_a_suspended_machine_counts() {
    for seen_ms in [1_000, 300_000] {
        let (bucket, for_ms) = (Arc::new(Mutex::new(Bucket::default())), Arc::<AtomicU64>::default());
        let env = ladoga_env::real::env().expect("an environment");
        let clock = Arc::new(Suspended { clock: Arc::clone(&env.clock), for_ms: Arc::clone(&for_ms) });
        let disk = disk_with(&bucket, &Env { clock, ..env });
        let _lock = stolen(&bucket, &disk);
        for_ms.store(seen_ms, Ordering::SeqCst);
        let refused =
            disk.remove(Path::new("s3://lake/nodes/files/a")).expect_err("it is another process's turn");
        assert!(refused.to_string().contains("another process has taken the lock"), "{seen_ms}: {refused}");
        assert_eq!(bucket.lock().content.as_deref(), Some(&[b'1'; 32][..]), "{seen_ms}: nothing was removed");
    }
}
