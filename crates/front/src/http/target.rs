use std::borrow::Cow;
use std::ops::Range;

use ladoga_http1::Uri;
use ladoga_model::{
    Durability, KEY_BYTES_MAX, KeyError, Quote, Replicas, ReplicasError, Ttl, TtlError, check_key,
};

use super::lifetime::Lifetime;

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
    #[error("limit is {found}, expected a whole number from 1")]
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
    #[error("ttl is none, expected a duration such as 60s: a value that is put without a ttl never expires")]
    PutForEver,
}

/// The key of a request: a part of its URI if nothing had to be decoded.
#[derive(Debug, Clone)]
enum Key {
    InUri { uri: Uri, range: Range<u32> },
    Decoded(Vec<u8>),
}

/// Which entity a request is about.
#[derive(Debug, Clone)]
pub(crate) struct EntityTarget {
    key: Key,
    replicas: Replicas,
    life: Option<Lifetime>,
    durability: Option<Durability>,
}

impl EntityTarget {
    /// Reads the query of `uri`, for a cluster of `nodes`.
    pub(crate) fn parse(uri: Uri, nodes: u32) -> Result<EntityTarget, TargetError> {
        let query = uri.query().unwrap_or("");
        let names = ["id", "replicas", "ack", "from", "ttl", "fsync"];
        let [id, replicas, ack, from, ttl, fsync] = parameters(query, names)?;
        let id = key("id", id)?;
        let replicas = Replicas::parse(replicas.as_deref(), ack.as_deref(), from.as_deref(), nodes)?;
        let life = ttl.map(|ttl| Lifetime::parse(&ttl)).transpose()?;
        let durability = fsync.map(|fsync| durability(&fsync)).transpose()?;
        let key = match id {
            Cow::Owned(decoded) => Key::Decoded(decoded),
            Cow::Borrowed(slice) => {
                let start = (slice.as_ptr().addr() - query.as_ptr().addr()) as u32;
                let range = start..start + slice.len() as u32;
                Key::InUri { uri, range }
            }
        };
        Ok(EntityTarget { key, replicas, life, durability })
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        match &self.key {
            Key::InUri { uri, range } => {
                let query = uri.query().unwrap_or("").as_bytes();
                &query[range.start as usize..range.end as usize]
            }
            Key::Decoded(key) => key,
        }
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

/// Whether a query has `verbose` in it, with any value or none.
pub(crate) fn is_verbose(uri: &Uri) -> Result<bool, QueryError> {
    let [verbose] = parameters(uri.query().unwrap_or(""), ["verbose"])?;
    Ok(verbose.is_some())
}

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryError {
    /// A percent sign without two hexadecimal digits.
    #[error("{found} is not a percent sequence; expected % and two hexadecimal digits")]
    Percent {
        /// What is there instead.
        found: Quote,
    },
    /// A parameter that may be given once is given again.
    #[error("the parameter {name} is given more than once")]
    Repeated {
        /// Which one.
        name: &'static str,
    },
}

/// The values of the parameters `names`, in their order; other parameters are ignored.
///
/// Decoded according to RFC 3986: a plus is a plus. The whole query has to be well-formed, including the parameters that are
/// ignored.
pub(crate) fn parameters<'q, const N: usize>(
    query: &'q str,
    names: [&'static str; N],
) -> Result<[Option<Cow<'q, [u8]>>; N], QueryError> {
    let mut values = [const { None }; N];
    let is_plain = !query.as_bytes().contains(&b'%');
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = if is_plain {
            (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value.as_bytes()))
        } else {
            (decode(name)?, decode(value)?)
        };
        if let Some(index) = names.iter().position(|known| known.as_bytes() == &*name)
            && values[index].replace(value).is_some()
        {
            return Err(QueryError::Repeated { name: names[index] });
        }
    }
    Ok(values)
}

fn decode(text: &str) -> Result<Cow<'_, [u8]>, QueryError> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(|&byte| byte == b'%') else {
        return Ok(Cow::Borrowed(bytes));
    };
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let [byte, tail @ ..] = rest {
        if *byte == b'%' {
            let (value, after) = percent_sequence(tail).ok_or_else(|| bad_sequence(rest))?;
            decoded.push(value);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = tail;
        }
    }
    Ok(Cow::Owned(decoded))
}

fn percent_sequence(after_percent: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = after_percent else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some(((digit(*high)? << 4 | digit(*low)?) as u8, rest))
}

fn bad_sequence(rest: &[u8]) -> QueryError {
    QueryError::Percent { found: Quote::of(&rest[..rest.len().min(3)]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(query: &str) -> Result<Vec<u8>, String> {
        let uri = format!("/v0/entity{query}").parse::<Uri>().expect("a URI");
        EntityTarget::parse(uri, 1).map(|target| target.key().to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_found_plain_and_decoded() {
        assert_eq!(entity("?id=key"), Ok(b"key".to_vec()));
        assert_eq!(entity("?replicas=1/1&id=key&x=y"), Ok(b"key".to_vec()));
        assert_eq!(entity("?id=%6bey&ack=1&from=1"), Ok(b"key".to_vec()));
        assert_eq!(entity("?id=key&x=%20"), Ok(b"key".to_vec()));
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
            let uri = format!("/v0/entity?id=key{query}").parse::<Uri>().expect("a URI");
            EntityTarget::parse(uri, 1).map_err(|error| error.to_string())
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
            let uri = format!("/v0/entity?id=key{query}").parse::<Uri>().expect("a URI");
            EntityTarget::parse(uri, 1).map_err(|error| error.to_string())
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

    fn id(query: &str) -> Result<Option<Vec<u8>>, QueryError> {
        let [id] = parameters(query, ["id"])?;
        Ok(id.map(Cow::into_owned))
    }

    #[test]
    fn finds_a_parameter_wherever_it_is() {
        for query in ["id=k", "a=b&id=k", "id=k&a=b", "&&id=k&", "i%64=%6b", "a&id=k"] {
            assert_eq!(id(query), Ok(Some(b"k".to_vec())), "{query}");
        }
        for query in ["", "ID=k", "id2=k", "xid=k"] {
            assert_eq!(id(query), Ok(None), "{query}");
        }
    }

    #[test]
    fn an_empty_value_is_not_an_absent_one() {
        assert_eq!(id("id="), Ok(Some(Vec::new())));
        assert_eq!(id("id"), Ok(Some(Vec::new())));
    }

    #[test]
    fn keeps_what_is_no_percent_sequence_as_it_is() {
        assert_eq!(id("id=a+b"), Ok(Some(b"a+b".to_vec())));
        assert_eq!(id("id=a=b"), Ok(Some(b"a=b".to_vec())));
        assert_eq!(id("id=a%2Bb+%3D%26"), Ok(Some(b"a+b+=&".to_vec())));
        assert_eq!(id("id=%00%ff%Fe"), Ok(Some(vec![0, 0xff, 0xfe])));
    }

    #[test]
    fn names_a_sequence_that_is_none() {
        for (query, found) in [
            ("id=%", "'%'"),
            ("id=a%2", "'%2'"),
            ("id=%zz1", "'%zz'"),
            ("id=%+1", "'%+1'"),
            ("id=k&other=%4g", "'%4g'"),
            ("id=%\u{e9}", "'%\\xc3\\xa9'"),
        ] {
            let error = id(query).expect_err(query);
            assert!(error.to_string().starts_with(&format!("{found} is not a percent")), "{error}");
        }
    }

    #[test]
    fn refuses_a_parameter_given_twice() {
        assert_eq!(id("id=a&id=a"), Err(QueryError::Repeated { name: "id" }));
        assert_eq!(id("x=a&x=a&id=k"), Ok(Some(b"k".to_vec())));
    }
}
