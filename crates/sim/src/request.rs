//! One request of a client, as it asks the node that coordinates it.

use bytes::Bytes;
use ladoga_model::{Replicas, Version};
use ladoga_replica::simulated::last_version;
use ladoga_service::{Context, Error, KeyValue, Lookup, Upload};

use crate::checker::Key;
use crate::clients::Wish;
use crate::store::bytes_of;

/// What a client asks, and of which node.
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) node: usize,
    pub(crate) key: Key,
    pub(crate) wish: Wish,
    pub(crate) replicas: Replicas,
}

/// An answer to a client.
pub(crate) enum Answer {
    /// It is written, under this version; none if one node alone has to have it.
    Written(Option<Version>),
    /// What the key holds; with its version, of a deletion as well.
    Read(Option<Version>, Option<Vec<u8>>),
}

/// Asks, and waits for the answer.
pub(crate) async fn ask(service: &impl KeyValue, request: &Request) -> Result<Answer, Error> {
    let Request { key, wish, replicas, .. } = request;
    let (key, replicas) = (key.clone(), *replicas);
    let waited_ms = match service.until_ready() {
        Some(ready) => ready.await?,
        None => 0,
    };
    let context = Context { waited_ms, ..Context::new(replicas) };
    match wish.clone() {
        Wish::Get => {
            let found = match service.get(&context, &key) {
                Lookup::Now(found) => found?,
                Lookup::Later(found) => found.await?,
            };
            let version = last_version();
            let value = match found.and_then(|cell| cell.value) {
                Some(value) => Some(bytes_of(value).await?),
                None => None,
            };
            return Ok(Answer::Read(version, value));
        }
        Wish::Delete => {
            service.delete(&context, key).await?;
        }
        Wish::Put(value) if crate::is_large(&value) => {
            service.admit_put(&context, &key, value.len() as u64)?;
            let upload = service.upload(&context, &key).await?;
            // In two pieces, so that it may end between them.
            let (first, second) = value.split_at(value.len() / 2);
            let upload = upload.write(Bytes::copy_from_slice(first)).await?;
            let upload = upload.write(Bytes::copy_from_slice(second)).await?;
            let finished = upload.finish().await?;
            service.put_uploaded(&context, key, finished).await?;
        }
        Wish::Put(value) => {
            service.admit_put(&context, &key, value.len() as u64)?;
            service.put(&context, key, Bytes::from(value), ()).await?;
        }
    }
    // A node that answers alone does not say it.
    Ok(Answer::Written(last_version().filter(|_| replicas.from > 1)))
}
