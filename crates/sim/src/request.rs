//! One request of a client, as it asks the node that coordinates it.

use bytes::Bytes;
use ladoga_model::{Replicas, Stamp, Version};
use ladoga_replica::simulated::{last_time_ms, last_version};
use ladoga_service::{Context, Error, KeyValue, Lookup, Precondition, StoreError, Upload, Value};

use crate::clients::Wish;
use crate::values::Key;
use crate::written::Found;

/// What a client asks, and of which node.
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) began_us: u64,
    pub(crate) node: usize,
    pub(crate) key: Key,
    pub(crate) wish: Wish,
    pub(crate) replicas: Replicas,
}

/// What a node is to answer in the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Question {
    pub(crate) node: usize,
    pub(crate) key: Key,
    /// Whether it is a write on condition that there is no value; or else a read.
    pub(crate) is_conditional: bool,
}

/// An answer to a client.
pub(crate) enum Answer {
    /// It is written, under this version; none if one node alone has to have it.
    Written(Option<Version>),
    /// It is not written, because the key has something else: this version, of a deletion as well.
    Refused(Option<Version>),
    /// So many there are now, under this version.
    Counted(u64, Version),
    /// What the key holds.
    Read(Found),
}

/// Asks, and waits for the answer.
pub(crate) async fn ask(service: &impl KeyValue, request: &Request) -> Result<Answer, Error> {
    let Request { key, wish, replicas, .. } = request;
    let (key, replicas) = (key.clone(), *replicas);
    let waited_ms = match service.until_ready() {
        Some(ready) => ready.await?,
        None => 0,
    };
    let (ttl, precondition) = match wish {
        Wish::Put { ttl, .. } => (*ttl, Precondition::None),
        Wish::PutIf { expected: Some((version, _)), .. } => (None, Precondition::IfMatch([*version].into())),
        Wish::PutIf { expected: None, .. } => (None, Precondition::IfNoneMatchAny),
        Wish::Delete | Wish::Get | Wish::Increment => (None, Precondition::None),
    };
    let context = Context { waited_ms, ttl, precondition, ..Context::new(replicas) };
    match wish.clone() {
        Wish::Get => {
            let found = match service.get(&context, &key) {
                Lookup::Now(found) => found?,
                Lookup::Later(found) => found.await?,
            };
            let (version, as_of_ms) = (last_version(), last_time_ms());
            let value = match found.and_then(|cell| cell.value) {
                Some(value) => Some(bytes_of(value).await?),
                None => None,
            };
            return Ok(Answer::Read(Found { version, value, as_of_ms }));
        }
        Wish::Delete => {
            service.delete(&context, key).await?;
        }
        Wish::Put { value, .. } if crate::is_large(&value) => {
            service.admit_put(&context, &key, value.len() as u64)?;
            let upload = service.upload(&context, &key).await?;
            // In two pieces, so that it may end between them.
            let (first, second) = value.split_at(value.len() / 2);
            let upload = upload.write(Bytes::copy_from_slice(first)).await?;
            let upload = upload.write(Bytes::copy_from_slice(second)).await?;
            let finished = upload.finish().await?;
            service.put_uploaded(&context, key, finished).await?;
        }
        Wish::PutIf { value, .. } => {
            service.admit_put(&context, &key, value.len() as u64)?;
            return match put_if(service, &context, key, value).await {
                Ok(version) => Ok(Answer::Written(Some(version))),
                Err(Error::PreconditionFailed { current }) => Ok(Answer::Refused(current)),
                Err(error) => Err(error),
            };
        }
        Wish::Increment => {
            let (sum, Stamp { version, .. }) = service.increment(&context, key, 1).await?;
            return Ok(Answer::Counted(u64::try_from(sum).expect("it only grows"), version));
        }
        Wish::Put { value, .. } => {
            service.admit_put(&context, &key, value.len() as u64)?;
            service.put(&context, key, Bytes::from(value), ()).await?;
        }
    }
    // A node that answers alone does not say it.
    Ok(Answer::Written(last_version().filter(|_| replicas.from > 1)))
}

async fn put_if(
    service: &impl KeyValue,
    context: &Context,
    key: Key,
    value: Vec<u8>,
) -> Result<Version, Error> {
    service.admit_conditional(context, &key, value.len() as u64).await?;
    if !crate::is_large(&value) {
        return service.put(context, key, Bytes::from(value), ()).await;
    }
    let upload = service.upload(context, &key).await?;
    let finished = upload.write(Bytes::from(value)).await?.finish().await?;
    service.put_uploaded(context, key, finished).await
}

/// All bytes of a value.
async fn bytes_of(value: Value) -> Result<Vec<u8>, StoreError> {
    let mut pieces = match value {
        Value::Inline(bytes) => return Ok(bytes.to_vec()),
        Value::Large(large) => large.pieces,
    };
    let mut all = Vec::new();
    while let Some((bytes, rest)) = pieces.next().await? {
        all.extend_from_slice(&bytes);
        pieces = rest;
    }
    Ok(all)
}
