use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ladoga_env::Clock;
use ladoga_tls::{certificates, read_bounded};
use rusty_s3::actions::{ListObjectsV2, S3Action};
use rusty_s3::{Bucket, Credentials};
use ureq::http::{HeaderMap, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};
use url::Url;

use crate::refusal::{Failed, refused};
use crate::{BadSettings, Place, Settings};

/// How often something is tried, and the first pause between two attempts; the next one is twice as long.
const ATTEMPTS: u32 = 6;
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// What fails later than this after the first attempt is not tried again: a server that is silent is asked twice.
const TRIED_FOR: Duration = Duration::from_secs(90);
/// A server that sends or takes nothing for so long is gone. Some take their time to acknowledge a large object.
const SILENCE_MAX: Duration = Duration::from_mins(1);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// For how long a signature is good.
const SIGNED_FOR: Duration = Duration::from_hours(1);
/// The longest page of a list that is read: a thousand names.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// One bucket, as this process asks for it.
pub(crate) struct Client {
    agent: Agent,
    clock: Arc<dyn Clock>,
    bucket: Bucket,
    credentials: Credentials,
}

/// When an object is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition<'c> {
    Always,
    /// If there is none yet.
    Absent,
    /// If it is this one.
    Is(&'c str),
}

/// Bytes of an object.
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// How many the object has.
    pub(crate) total: u64,
    pub(crate) tag: String,
    /// Since when it has been there, by the clock of the server; none if the server does not say.
    pub(crate) age: Option<Duration>,
}

/// What an object is to consist of; it is read once an attempt.
pub(crate) trait Content {
    fn bytes(&self) -> u64;
    fn read<'c>(&'c self) -> Box<dyn Read + 'c>;
}

impl Content for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read<'c>(&'c self) -> Box<dyn Read + 'c> {
        Box::new(&self[..])
    }
}

impl Client {
    pub(crate) fn new(
        clock: &Arc<dyn Clock>,
        settings: &Settings,
        place: &Place,
    ) -> Result<Client, BadSettings> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(SILENCE_MAX))
            .timeout_per_read(Some(SILENCE_MAX))
            .timeout_per_write(Some(SILENCE_MAX))
            .user_agent(concat!("ladoga/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(settings)?)
            .build();
        let bucket = settings.bucket(place)?;
        let (agent, clock) = (config.new_agent(), Arc::clone(clock));
        Ok(Client { agent, clock, bucket, credentials: settings.credentials.clone() })
    }

    /// Reads bytes of an object; fewer if it ends before.
    pub(crate) fn get(&self, key: &str, offset: u64, bytes_max: u64) -> io::Result<Piece> {
        let last = offset.saturating_add(bytes_max.max(1)) - 1;
        let range = format!("bytes={offset}-{last}");
        self.attempt(|| {
            let url = self.bucket.get_object(Some(&self.credentials), key).sign(SIGNED_FOR);
            let mut response = self.agent.get(url.as_str()).header("range", &range).call()?;
            let headers = response.headers();
            let (tag, age) = (text(headers, "etag").unwrap_or_default(), age(headers));
            let total = text(headers, "content-range").and_then(|range| total_of(&range));
            let bytes = match response.status().as_u16() {
                206 => read(&mut response, bytes_max)?,
                200 if offset == 0 => read(&mut response, bytes_max)?,
                // Nothing is there: the object is empty, or ends before.
                416 => Vec::new(),
                _ => return Err(refused(response, self.bucket.name())),
            };
            let total = total.unwrap_or(offset + bytes.len() as u64);
            if (bytes.len() as u64) < bytes_max.min(total.saturating_sub(offset)) {
                return Err(Failed::Passing(io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(Piece { bytes, total, tag, age })
        })
    }

    /// Writes an object, with the checksum that it has to have, and answers its tag.
    pub(crate) fn put(
        &self,
        key: &str,
        (content, crc32c): (&dyn Content, u32),
        condition: Condition<'_>,
    ) -> io::Result<String> {
        let crc32c = STANDARD.encode(crc32c.to_be_bytes());
        let mut named = vec![("x-amz-checksum-crc32c", crc32c.as_str())];
        match condition {
            Condition::Always => {}
            Condition::Absent => named.push(("if-none-match", "*")),
            Condition::Is(tag) => named.push(("if-match", tag)),
        }
        self.attempt(|| {
            let mut action = self.bucket.put_object(Some(&self.credentials), key);
            named.iter().for_each(|(name, value)| action.headers_mut().insert(*name, *value));
            let request = self.agent.put(action.sign(SIGNED_FOR).as_str());
            let request = named.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let request = request.header("content-length", content.bytes());
            let mut reader = content.read();
            let response = request.send(SendBody::from_reader(&mut *reader))?;
            match response.status().as_u16() {
                200 | 201 => {
                    text(response.headers(), "etag").ok_or_else(|| Failed::nonsense("without an ETag"))
                }
                _ => Err(refused(response, self.bucket.name())),
            }
        })
    }

    /// Removes an object, if there is one.
    pub(crate) fn delete(&self, key: &str) -> io::Result<()> {
        self.attempt(|| {
            let url = self.bucket.delete_object(Some(&self.credentials), key).sign(SIGNED_FOR);
            let response = self.agent.delete(url.as_str()).call()?;
            match response.status().as_u16() {
                200 | 204 => Ok(()),
                _ => Err(refused(response, self.bucket.name())),
            }
        })
    }

    /// What comes behind `prefix` in the keys that begin with it, up to the next slash, and how many bytes each has, if the server says so;
    /// each once, in order.
    pub(crate) fn list(&self, prefix: &str) -> io::Result<Vec<(String, Option<u64>)>> {
        let (mut names, mut token) = (BTreeMap::new(), None);
        loop {
            let page = self.attempt(|| self.page(prefix, token.as_deref()))?;
            let objects = page.contents.into_iter().map(|object| (object.key, object.size));
            let folders = page.common_prefixes.into_iter().map(|folder| (folder.prefix, None));
            for (key, bytes) in objects.chain(folders) {
                let name = key.strip_prefix(prefix).map(|name| name.trim_end_matches('/').to_owned());
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    names.entry(name).or_insert(bytes);
                }
            }
            let next = page.next_continuation_token;
            if next.is_some() && next == token {
                return Err(Failed::nonsense("a page of a list again and again").into_error());
            }
            token = next;
            if token.is_none() {
                return Ok(names.into_iter().collect());
            }
        }
    }

    fn attempt<T>(&self, ask: impl FnMut() -> Result<T, Failed>) -> io::Result<T> {
        attempt(&*self.clock, ask)
    }

    fn page(
        &self,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<rusty_s3::actions::ListObjectsV2Response, Failed> {
        let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
        action.with_prefix(prefix);
        action.with_delimiter("/");
        if let Some(token) = token {
            action.with_continuation_token(token);
        }
        let url: Url = action.sign(SIGNED_FOR);
        let mut response = self.agent.get(url.as_str()).call()?;
        if response.status().as_u16() != 200 {
            return Err(refused(response, self.bucket.name()));
        }
        let body = read(&mut response, PAGE_BYTES_MAX)?;
        let page = ListObjectsV2::parse_response(&String::from_utf8_lossy(&body));
        page.map_err(|error| Failed::nonsense(&format!("a list that cannot be read: {error}")))
    }
}

/// Tries it until it works, will not work, or has been tried often enough or for long enough.
fn attempt<T>(clock: &dyn Clock, mut ask: impl FnMut() -> Result<T, Failed>) -> io::Result<T> {
    let (began_ns, mut pause) = (clock.monotonic_ns(), PAUSE_MIN);
    let mut count = 1;
    loop {
        let error = match ask() {
            Err(Failed::Passing(error)) => error,
            ended => return ended.map_err(Failed::into_error),
        };
        let tried_for = Duration::from_nanos(clock.monotonic_ns().saturating_sub(began_ns));
        // What takes long by itself, as a large object does, is sent again once.
        if count == ATTEMPTS || (count > 1 && tried_for >= TRIED_FOR) {
            let text = format!("{error}; asked {count} times in {} s", tried_for.as_secs());
            return Err(io::Error::new(error.kind(), text));
        }
        tracing::debug!("asked again in {pause:?}: {error}");
        thread::sleep(pause);
        pause *= 2;
        count += 1;
    }
}

fn read(response: &mut Response<Body>, bytes_max: u64) -> Result<Vec<u8>, Failed> {
    // One byte more is an error of its own.
    Ok(response.body_mut().with_config().limit(bytes_max + 1).read_to_vec()?)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The length behind the slash of `bytes 0-9/10`, or `bytes */10`.
fn total_of(range: &str) -> Option<u64> {
    range.rsplit_once('/')?.1.parse().ok()
}

fn age(headers: &HeaderMap) -> Option<Duration> {
    let time = |name| httpdate::parse_http_date(&text(headers, name)?).ok();
    let (now, written) = (time("date")?, time("last-modified")?);
    Some(now.duration_since(written).unwrap_or_default())
}

fn tls(settings: &Settings) -> Result<TlsConfig, BadSettings> {
    let mut roots = rustls_native_certs::load_native_certs().certs;
    if let Some(path) = &settings.authorities {
        let read = read_bounded(path).map_err(|error| error.to_string());
        let found = read.and_then(|content| certificates(&content).map_err(|error| error.to_string()));
        roots.extend(found.map_err(|error| BadSettings::of_authorities(path, &error))?);
    }
    let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use ladoga_env::sim::SimClock;

    use super::*;

    #[test]
    fn the_length_of_an_object_is_behind_the_slash() {
        assert_eq!(total_of("bytes 0-9/10"), Some(10));
        assert_eq!(total_of("bytes */0"), Some(0));
        assert_eq!([total_of("bytes 0-9/*"), total_of("nothing")], [None, None]);
    }

    #[test]
    fn an_attempt_that_may_help_is_made_again() {
        let passing = || Failed::Passing(io::ErrorKind::ConnectionReset.into());
        let clock = SimClock::new();
        let mut count = 0;
        let ended = attempt(&clock, || {
            count += 1;
            if count < 3 { Err(passing()) } else { Ok(count) }
        });
        assert_eq!(ended.expect("the third"), 3);
        let mut count = 0;
        let refused = attempt(&clock, || {
            count += 1;
            Err::<(), _>(Failed::Lasting(io::ErrorKind::NotFound.into()))
        });
        assert_eq!((count, refused.expect_err("refused").kind()), (1, io::ErrorKind::NotFound));
    }

    #[test]
    fn a_server_that_is_silent_is_asked_twice() {
        let (clock, mut count) = (SimClock::new(), 0);
        let ended = attempt(&clock, || {
            count += 1;
            clock.advance(SILENCE_MAX);
            Err::<(), _>(Failed::Passing(io::Error::new(io::ErrorKind::TimedOut, "the server says nothing")))
        });
        let told = ended.expect_err("nobody answered").to_string();
        assert_eq!((count, told.as_str()), (2, "the server says nothing; asked 2 times in 120 s"));
    }

    #[test]
    fn what_breaks_off_after_a_long_time_is_tried_once_more() {
        let (clock, mut count) = (SimClock::new(), 0);
        let ended = attempt(&clock, || {
            count += 1;
            clock.advance(2 * TRIED_FOR);
            if count == 1 { Err(Failed::Passing(io::ErrorKind::ConnectionReset.into())) } else { Ok(count) }
        });
        assert_eq!(ended.expect("the second"), 2);
    }
}
