use std::borrow::Cow;

use bytes::{Buf, Bytes};
use ladoga_http1::Method;
use ladoga_http1::server::Request;
use ladoga_model::{
    Durability, KEY_BYTES_MAX, KeyError, Quote, Replicas, ReplicasError, Ttl, TtlError, check_key,
};
use memchr::memchr2;

use super::lifetime::Lifetime;
use super::query::{QueryError, lone_key, parameters};
use super::route::ENTITY;

/// Why a request does not say which entities it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    /// A parameter that has to be there is not.
    #[error("the parameter {name} is missing; expected 1 to {KEY_BYTES_MAX} bytes")]
    Missing {
        /// Which one.
        name: &'static str,
    },
    /// A parameter is no key.
    #[error("{name}: {error}")]
    Key {
        /// Which one.
        name: &'static str,
        /// Why not.
        error: KeyError,
    },
    /// A range that does not say where it begins.
    #[error("start, prefix and after are missing, expected one of them")]
    NoStart,
    /// A parameter that is none of a few words.
    #[error("{name} is {found}, expected {expected}")]
    Word {
        /// Which one.
        name: &'static str,
        /// What it is.
        found: Quote,
        /// The words.
        expected: &'static str,
    },
    /// A limit that is none.
    #[error("limit is {found}, expected a whole number from 1 to {}", u64::MAX)]
    Limit {
        /// What it is.
        found: Quote,
    },
    /// A `POST` that does not say what to do.
    #[error(
        "the parameters increment and ttl are missing; a POST needs one of them: a 64-bit integer, or a duration or none"
    )]
    NothingToDo,
    /// A `POST` that says two things.
    #[error("increment and ttl are given together, expected one of them")]
    TwoThingsToDo,
    /// What is to be added is no number.
    #[error("increment is {found}, expected a 64-bit integer in decimal digits, such as 1 or -5")]
    Increment {
        /// What it is.
        found: Quote,
    },
    /// The query is malformed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The replicas cannot be.
    #[error(transparent)]
    Replicas(#[from] ReplicasError),
    /// It is no time to live.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// The same if a time to live of `none` is permitted.
    #[error("{0}, or none")]
    Life(TtlError),
    /// Nothing is written that could expire.
    #[error(
        "the parameter ttl is only for PUT and POST; a request with another method does not set when a value expires"
    )]
    TtlOfNothing,
    /// Nothing is written that could be durable.
    #[error(
        "the parameter fsync is only for PUT, POST and DELETE; a request with another method writes nothing"
    )]
    FsyncOfNothing,
    /// It is not given.
    #[error(
        "ttl is 'none', expected a duration such as 60s: a value that is put without a ttl never expires"
    )]
    PutForEver,
}

/// Which entity a request is about.
#[derive(Debug, Clone)]
pub(crate) struct EntityTarget {
    /// A part of the query if nothing had to be decoded.
    key: Bytes,
    replicas: Replicas,
    life: Option<Lifetime>,
    durability: Option<Durability>,
}

impl EntityTarget {
    /// Reads a query, for a cluster of `nodes`.
    pub(crate) fn parse(mut query: Bytes, nodes: u32) -> Result<EntityTarget, TargetError> {
        if let Some(id) = lone_key(&query) {
            key("id", Some(Cow::Borrowed(id)))?;
            let replicas = Replicas::parse(None, None, None, nodes)?;
            let start = query.len() - id.len();
            query.advance(start);
            return Ok(EntityTarget { key: query, replicas, life: None, durability: None });
        }
        let names = ["id", "replicas", "ack", "from", "ttl", "fsync"];
        let [id, replicas, ack, from, ttl, fsync] = parameters(&query, names)?;
        let id = key("id", id)?;
        let replicas = Replicas::parse(replicas.as_deref(), ack.as_deref(), from.as_deref(), nodes)?;
        let life = ttl.map(|ttl| Lifetime::parse(&ttl)).transpose()?;
        let durability = fsync.map(|fsync| durability(&fsync)).transpose()?;
        let key = match id {
            Cow::Owned(decoded) => Bytes::from(decoded),
            Cow::Borrowed(part) => query.slice_ref(part),
        };
        Ok(EntityTarget { key, replicas, life, durability })
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl AsRef<[u8]> for EntityTarget {
    fn as_ref(&self) -> &[u8] {
        self.key()
    }
}

impl EntityTarget {
    /// How many nodes the key lives on, and how many have to answer.
    pub(crate) fn replicas(&self) -> Replicas {
        self.replicas
    }

    /// How long the value is to live that is written, if it ends.
    pub(crate) fn ttl(&self) -> Option<Ttl> {
        self.life.and_then(Lifetime::ttl)
    }

    /// How durable the write is to be before it is answered, if that is said.
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// Refuses what is only for writes.
    pub(crate) fn check_read(&self) -> Result<(), TargetError> {
        self.check_ttl(false)?;
        if self.durability.is_some() { Err(TargetError::FsyncOfNothing) } else { Ok(()) }
    }

    /// Refuses a time to live on a request that writes no value.
    pub(crate) fn check_ttl(&self, is_put: bool) -> Result<(), TargetError> {
        match self.life {
            Some(_) if !is_put => Err(TargetError::TtlOfNothing),
            Some(Lifetime::Unlimited) => Err(TargetError::PutForEver),
            Some(Lifetime::Limited(_)) | None => Ok(()),
        }
    }
}

pub(super) fn durability(text: &[u8]) -> Result<Durability, TargetError> {
    let wrong = || TargetError::Word { name: "fsync", found: Quote::of(text), expected: Durability::WORDS };
    Durability::parse(text).ok_or_else(wrong)
}

pub(super) fn key<'q>(
    name: &'static str,
    value: Option<Cow<'q, [u8]>>,
) -> Result<Cow<'q, [u8]>, TargetError> {
    let value = value.ok_or(TargetError::Missing { name })?;
    check_key(&value).map_err(|error| TargetError::Key { name, error })?;
    Ok(value)
}

/// The key that a request will look up, if a glance tells that it will look one up at all.
pub(crate) fn key_to_read(request: &Request) -> Option<&[u8]> {
    if request.method != Method::GET || request.path() != ENTITY.as_bytes() {
        return None;
    }
    let query = request.query().strip_prefix(b"id=")?;
    match memchr2(b'&', b'%', query) {
        None => Some(query),
        Some(end) => (query[end] == b'&').then(|| &query[..end]),
    }
}

/// Whether a query has `verbose` in it, with any value or none.
pub(crate) fn is_verbose(query: &[u8]) -> Result<bool, QueryError> {
    let [verbose] = parameters(query, ["verbose"])?;
    Ok(verbose.is_some())
}

#[cfg(test)]
mod tests {
    use ladoga_http1::server::{Connection, HeadLimits};

    use super::*;

    fn entity(query: &str) -> Result<Vec<u8>, String> {
        let query = Bytes::copy_from_slice(query.trim_start_matches('?').as_bytes());
        EntityTarget::parse(query, 1).map(|target| target.key().to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_found_plain_and_decoded() {
        assert_eq!(entity("?id=key"), Ok(b"key".to_vec()));
        assert_eq!(entity("?replicas=1/1&id=key&x=y"), Ok(b"key".to_vec()));
        assert_eq!(entity("?id=%6bey&ack=1&from=1"), Ok(b"key".to_vec()));
        assert_eq!(entity("?id=key&x=%20"), Ok(b"key".to_vec()));
    }

    #[test]
    fn a_glance_tells_which_key_is_read() {
        let key = |head: &str| {
            let limits = HeadLimits { line_bytes_max: 1_000, fields_bytes_max: 1_000 };
            let mut connection = Connection::new(limits, 0);
            connection.receive(format!("{head} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(), || 0);
            let request = connection.next_request(0).expect("well-formed").expect("complete");
            key_to_read(&request).map(<[u8]>::to_vec)
        };
        for read in ["GET /v0/entity?id=key", "GET /v0/entity?id=key&ack=1", "GET http://x/v0/entity?id=key"]
        {
            assert_eq!(key(read), Some(b"key".to_vec()), "{read}");
        }
        for other in ["PUT /v0/entity?id=key", "GET /v0/entities?id=key", "GET /v0/entity?id=%6bey", "GET /"]
        {
            assert_eq!(key(other), None, "{other}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_key() {
        assert_eq!(entity(""), Err("the parameter id is missing; expected 1 to 4096 bytes".into()));
        assert_eq!(entity("?id="), Err("id: the key is empty, expected 1 to 4096 bytes".into()));
        let long = entity(&format!("?id={}", "k".repeat(KEY_BYTES_MAX + 1)));
        assert_eq!(long, Err("id: the key has 4097 bytes, expected 1 to 4096".into()));
        assert_eq!(entity(&format!("?id={}", "%00".repeat(KEY_BYTES_MAX))), Ok(vec![0; KEY_BYTES_MAX]));
        assert!(entity("?id=k&replicas=2/3").is_err());
    }

    #[test]
    fn a_value_may_have_a_time_to_live_where_it_is_written() {
        let target = |query: &str| {
            EntityTarget::parse(format!("id=key{query}").into(), 1).map_err(|error| error.to_string())
        };
        let put = target("&ttl=60s").expect("a time to live");
        assert_eq!(put.ttl().map(Ttl::ms), Some(60_000));
        assert_eq!(put.check_ttl(true), Ok(()));
        assert_eq!(put.check_ttl(false), Err(TargetError::TtlOfNothing));
        let forever = target("").expect("none");
        assert_eq!((forever.ttl(), forever.check_ttl(false)), (None, Ok(())));
        let none = target("&ttl=none").expect("it never expires");
        assert_eq!((none.ttl(), none.check_ttl(true)), (None, Err(TargetError::PutForEver)));
        assert_eq!(none.check_ttl(false), Err(TargetError::TtlOfNothing));
        for query in ["&ttl=", "&ttl", "&ttl=0s", "&ttl=60", "&ttl=-1s", "&ttl=1s&ttl=2s"] {
            assert!(target(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_write_may_say_how_durable_it_is_to_be() {
        let target = |query: &str| {
            EntityTarget::parse(format!("id=key{query}").into(), 1).map_err(|error| error.to_string())
        };
        let asked = |query: &str| target(query).map(|target| target.durability());
        for durability in Durability::ALL {
            assert_eq!(asked(&format!("&fsync={}", durability.word())), Ok(Some(durability)));
        }
        assert_eq!(asked("&f%73ync=%61lways&ttl=1s"), Ok(Some(Durability::Always)));
        assert_eq!(asked(""), Ok(None));
        for query in
            ["&fsync", "&fsync=", "&fsync=Always", "&fsync=1", "&fsync=always+", "&fsync=every%20sec"]
        {
            let is_told =
                |error: String| error.starts_with("fsync is '") && error.ends_with(Durability::WORDS);
            assert!(asked(query).is_err_and(is_told), "{query}");
        }
        let twice = asked("&fsync=always&fsync=always").expect_err("once is enough");
        assert_eq!(twice, "the parameter fsync is given more than once");
        let read = target("&fsync=never").expect("a write may").check_read();
        assert_eq!(read, Err(TargetError::FsyncOfNothing));
        assert_eq!(target("").expect("a key").check_read(), Ok(()));
        assert_eq!(target("&ttl=1s").expect("a write may").check_read(), Err(TargetError::TtlOfNothing));
    }
}
